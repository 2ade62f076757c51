// The settings that vLLM prints at its start: "Initializing a V1 LLM engine (v0.8.5) with config: …".
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "LLM engine") || !has(line, "config")) return std::nullopt;
  LogMessage message;
  message.add("context_length", integer_after(line, "max_seq_len="));
  if (message.figures.empty()) return std::nullopt;
  return message;
}

Finding explain(const LogMessage&) { return {}; }  // it is none by itself

}  // namespace

LogRule vllm_context_rule() {
  LogRule rule{"vllm-context", {"LLM engine"}, read, explain};
  rule.context_of = "vllm";
  return rule;
}

}  // namespace headroom::doctor
