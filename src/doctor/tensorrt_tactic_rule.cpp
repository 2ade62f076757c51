// TensorRT's builder leaves out a tactic that needs more than the workspace allows. The build goes on.
#include <fmt/format.h>

#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "insufficient to use tactic")) {
    message.add("requested_bytes", size_after(line, "request: "));
    message.add("free_bytes", size_after(line, "Available: "));
    return message;
  }
  // TensorRT 8 spells it with one f.
  const bool lacks_memory = has(line, "insufficient memory") || has(line, "insuficient memory");
  if (!lacks_memory || !(has(line, "tactic") || has(line, "Tactic"))) return std::nullopt;
  message.add("requested_bytes", size_after(line, "requested size of "));
  if (const auto tactic = integer_after(line, "Skipping tactic ")) message.add("tactic", tactic);
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "tensorrt-tactic-skipped";
  finding.severity = Severity::benign;
  finding.title = fmt::format("TensorRT left out a tactic that wanted {} while it built an engine",
                              words_for(message.bytes("requested_bytes"), "more memory"));
  finding.cause =
      "The build goes on with another tactic. The engine may be slower; it is not wrong, and nothing failed.";
  finding.cures = {{"if the engine is slow and there is memory, give the build more",
                    "trtexec --onnx=model.onnx --memPoolSize=workspace:4096",
                    {}}};
  return finding;
}

}  // namespace

LogRule tensorrt_tactic_rule() {
  return {"tensorrt-tactic",
          {"insufficient memory", "insuficient memory", "insufficient to use tactic"},
          read,
          explain};
}

}  // namespace headroom::doctor
