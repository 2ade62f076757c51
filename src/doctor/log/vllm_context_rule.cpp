// The settings that vLLM prints at its start: "Initializing a V1 LLM engine (v0.8.5) with config: …", the
// share of the GPU that it takes, and how much its cache of keys and values lacks of it.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// Of "9", "90", "855": 90, 90, 85.
std::optional<std::int64_t> hundredths(std::string_view digits) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const bool is_digit = i < digits.size() && digits[i] >= '0' && digits[i] <= '9';
    if (i == 0 && !is_digit) return std::nullopt;
    number = number * 10 + (is_digit ? digits[i] - '0' : 0);
  }
  return number;
}

// "gpu_memory_utilization=0.90", "'gpu_memory_utilization': 0.5" of its non-default args, "total_gpu_memory
// (79.15GiB) x gpu_memory_utilization (0.90) = 71.24GiB".
void read_share(std::string_view line, LogMessage& message) {
  for (const std::string_view words : {"gpu_memory_utilization=0.", "gpu_memory_utilization': 0.",
                                       "gpu_memory_utilization\": 0.", "gpu_memory_utilization (0."})
    if (const auto share = text_after(line, words)) {
      message.add("share_percent", hundredths(*share));
      break;
    }
  if (has(line, ") x gpu_memory_utilization (")) message.add("total_bytes", size_after(line, "gpu_memory ("));
}

// What is left of the share for the cache, below zero: "Available KV cache memory: -0.62 GiB", and up to 0.8
// "…; the rest of the memory reserved for KV Cache is -0.43GiB." What it lacks comes before any cache.
void read_lack(std::string_view line, LogMessage& message) {
  for (const std::string_view words : {"Available KV cache memory: -", "reserved for KV Cache is -"})
    if (const auto lack = text_after(line, words)) {
      const auto size = leading_size(*lack);
      if (size && size->count > 0) message.add("lacking_bytes", size);
    }
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "LLM engine") && has(line, "config"))
    message.add("context_length", integer_after(line, "max_seq_len="));
  read_share(line, message);
  read_lack(line, message);
  if (message.figures.empty()) return std::nullopt;
  return message;
}

Finding explain(const LogMessage&) { return {}; }  // it is none by itself

}  // namespace

LogRule vllm_context_rule() {
  LogRule rule{"vllm-context",
               {"LLM engine", "tilization=0.", "tilization': 0.", "tilization\": 0.", "tilization (0.",
                "able KV cache memory: -", "for KV Cache is -"},
               read,
               explain};
  rule.context_of = "vllm";
  return rule;
}

}  // namespace headroom::doctor
