// The settings that vLLM prints at its start: "Initializing a V1 LLM engine (v0.8.5) with config: …", and the
// share of the GPU that it takes: "Memory profiling results: … gpu_memory_utilization=0.90".
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

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "LLM engine") && has(line, "config"))
    message.add("context_length", integer_after(line, "max_seq_len="));
  if (const auto share = text_after(line, "gpu_memory_utilization=0."))
    message.add("share_percent", hundredths(*share));
  if (message.figures.empty()) return std::nullopt;
  return message;
}

Finding explain(const LogMessage&) { return {}; }  // it is none by itself

}  // namespace

LogRule vllm_context_rule() {
  LogRule rule{"vllm-context", {"LLM engine", "tilization=0."}, read, explain};
  rule.context_of = "vllm";
  return rule;
}

}  // namespace headroom::doctor
