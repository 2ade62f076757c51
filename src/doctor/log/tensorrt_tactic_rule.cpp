// TensorRT's builder leaves out a tactic that needs more than the workspace allows. The build goes on.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kLongestNode = 100;
constexpr const char* kGpuMemory = "GPU memory";

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "insufficient to use tactic")) {
    message.add("requested_bytes", size_after(line, "request: "));
    message.add("free_bytes", size_after(line, "Available: "));
    message.part = "request";
    return message;
  }
  // TensorRT 7: the next tactic is tried, unless there is none (tensorrt_node_rule.cpp).
  if (const auto node = text_after(line, "GPU memory allocation error during getBestTactic: ")) {
    message.add("node", trim(node->substr(0, kLongestNode)));
    message.add("lacked", kGpuMemory);
    message.part = "skipped";
    message.answers = true;
    return message;
  }
  // TensorRT 8 spells it with one f.
  const bool lacks_memory =
      has(line, "insufficient memory") || has(line, "insuficient memory") ||
      (has(line, "kipping tactic") &&
       (has(line, "(out of memory)") || has(line, "OutOfMemory") || has(line, "due to oom error")));
  if (!lacks_memory || !(has(line, "tactic") || has(line, "Tactic"))) return std::nullopt;
  // Up to TensorRT 7 in bytes; 8 prints MiB without a unit ("size of 449" behind "request: 448MB").
  auto requested = size_after(line, "requested size of ");
  constexpr std::int64_t kLeastBytes = 1 << 20;
  if (requested && requested->count < kLeastBytes) requested = mebibytes(requested->count);
  message.add("requested_bytes", requested);
  message.part = "skipped";
  message.answers = true;  // the builder goes on
  if (const auto tactic = integer_after(line, "Skipping tactic ")) message.add("tactic", tactic);
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "tensorrt-tactic-skipped";
  finding.severity = Severity::benign;
  finding.title = fmt::format("TensorRT skipped a tactic that needs {} while it built an engine",
                              words_for(message.bytes("requested_bytes"), "more memory"));
  finding.cause =
      "The build continues with another tactic. The engine may be slower, but it is correct. Nothing failed.";
  const auto requested = message.bytes("requested_bytes");
  const bool is_known = requested && !is_impossible(*requested);
  finding.cures = {{"if the engine is slow and memory is free, give the build more workspace",
                    fmt::format("trtexec --onnx=model.onnx --memPoolSize=workspace:{}",
                                is_known ? std::to_string(mebibytes_above(*requested)) : std::string("MIB")),
                    {}}};
  if (message.text("lacked") == kGpuMemory) {
    finding.title = fmt::format("TensorRT skipped a tactic of the node {}: the GPU had no memory for it",
                                message.text("node"));
    finding.cures = {{"if the engine is slow, free GPU memory before the build", "headroom top", {}}};
  }
  // The device itself had less: a larger bound would find no more.
  const auto free = message.bytes("free_bytes");
  if (is_known && free && *free < *requested)
    finding.cures = {
        {fmt::format("if the engine is slow, free GPU memory before the build: only {} were free",
                     format_bytes(*free)),
         "headroom top", *requested - *free}};
  return finding;
}

}  // namespace

LogRule tensorrt_tactic_rule() {
  LogRule rule{"tensorrt-tactic",
               {"insufficient memory", "insuficient memory", "insufficient to use tactic", "kipping tactic",
                "during getBestTactic"},
               read,
               explain};
  rule.answers = "tensorrt";
  rule.figures_for = "tensorrt-node";
  return rule;
}

}  // namespace headroom::doctor
