// What programs on PyTorch print before they run out of memory, and by which cures are chosen: that they are
// a server with settings of its own (torch_servers.h), and that the model is in half precision already.
#include <algorithm>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/torch_servers.h"

namespace headroom::doctor {
namespace {

// "dtype=torch.bfloat16", "torch_dtype: float16", "--dtype half", "model weight dtype torch.float8_e4m3fn".
// The type of a cache tells nothing of the weights.
std::string_view half_precision(std::string_view line) {
  constexpr std::string_view kTypes[] = {"bfloat16", "float16", "half", "bf16", "fp16", "float8", "fp8"};
  constexpr std::string_view kName = "dtype";
  for (std::size_t at = line.find(kName); at != line.npos; at = line.find(kName, at + 1)) {
    if (line.substr(0, at).ends_with("cache_") || line.substr(0, at).ends_with("cache-")) continue;
    std::string_view value = line.substr(at + kName.size());
    value.remove_prefix(std::min(value.find_first_not_of("\"'=: "), value.size()));
    if (value.starts_with("torch.")) value.remove_prefix(std::string_view("torch.").size());
    for (const std::string_view type : kTypes)
      if (value.starts_with(type)) return type;
  }
  return {};
}

// vLLM's: "Starting to load model …", and then "Model loading took 27.59 GiB and 5.25 seconds", before
// "Loading model weights took …".
void read_loading(std::string_view line, LogMessage& message) {
  if (!has(line, "model_runner.py:")) return;
  if (has(line, "] Starting to load model ")) message.add("phase", "load");
  auto weights = size_after(line, "] Model loading took ");
  if (!weights) weights = size_after(line, "] Loading model weights took ");
  if (weights) message.add("phase", "run");
  message.add("weights_bytes", weights);
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  message.add("runtime", torch_server_of(line));
  message.add("precision", half_precision(line));
  auto context = integer_after(line, "Using max model len ");
  if (!context && has(line, "LLM engine")) context = integer_after(line, "max_seq_len=");
  message.add("context_length", context);
  read_loading(line, message);
  if (message.figures.empty()) return std::nullopt;
  return message;
}

Finding explain(const LogMessage&) { return {}; }  // it is none by itself

}  // namespace

LogRule torch_context_rule() {
  LogRule rule{"pytorch-context",
               {"float16", "float8", "torch.half", "e=half", "e half", "pe=bf16", "pe=fp16", "pe bf16",
                "pe fp16", "pe: bf16", "pe: fp16"},
               read,
               explain};
  const auto& of_servers = torch_server_anchors();
  rule.anchors.insert(rule.anchors.end(), of_servers.begin(), of_servers.end());
  rule.context_of = "pytorch";
  return rule;
}

}  // namespace headroom::doctor
