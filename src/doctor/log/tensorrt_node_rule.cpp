// TensorRT found no way to run a node, and builds no engine: every tactic was left out, often for want of
// workspace.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// With a capital since TensorRT 8.
constexpr std::string_view kWords = "ould not find any implementation for node ";
constexpr std::size_t kLongestNode = 100;
constexpr const char* kGpuMemory = "GPU memory";  // as tensorrt_tactic_rule.cpp and tensorrt_rule.cpp tell it

std::optional<LogMessage> read(std::string_view line) {
  const auto node = text_after(line, kWords);
  if (!node) return std::nullopt;
  LogMessage message;
  const std::size_t reason = node->find(" due to insufficient workspace"),
                    advice = node->find(", try increasing the workspace size");
  std::string_view name = node->substr(0, std::min({kLongestNode, reason, advice}));
  while (!name.empty() && std::string_view(".) \"\n").find(name.back()) != std::string_view::npos)
    name.remove_suffix(1);
  message.add("node", name);
  if (reason != node->npos) message.add("reason", "insufficient workspace");
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "tensorrt-no-implementation";
  finding.severity = Severity::severe;
  finding.title = fmt::format("TensorRT found no implementation for the node {}", message.text("node"));
  finding.cause =
      "TensorRT skipped every tactic for it. If lines before it skip tactics for memory, the workspace or "
      "the GPU's free memory was too small. Otherwise, TensorRT does not support the node in that type or "
      "shape.";
  finding.confidence = Confidence::possible;
  if (!message.text("reason").empty()) {
    finding.cause = "The workspace was too small for each of its tactics.";
    finding.confidence = Confidence::certain;
  }
  // Of the tactic that was left out last, or of what the GPU refused before.
  const auto requested = message.bytes("requested_bytes"), free = message.bytes("free_bytes");
  const bool is_known = requested && !is_impossible(*requested);
  const bool gpu_was_full = message.text("lacked") == kGpuMemory;
  Cure room{"give the build more workspace than the skipped tactics requested",
            fmt::format("trtexec --onnx=model.onnx --memPoolSize=workspace:{}",
                        is_known ? std::to_string(mebibytes_above(*requested)) : std::string("MIB")),
            {}};
  if (is_known && free && *free < *requested) {
    finding.cause =
        fmt::format("The last skipped tactic requested {}, but only {} of the GPU's memory were free.",
                    format_bytes(*requested), format_bytes(*free));
    finding.confidence = Confidence::likely;
    room = {fmt::format("free GPU memory before the build: {} more", format_bytes(*requested - *free)),
            "headroom top", *requested - *free};
  }
  if (gpu_was_full && !free) {
    const std::string asked = is_known ? format_bytes(*requested) : std::string();
    finding.cause =
        asked.empty()
            ? "The GPU had no memory for the last skipped tactic."
            : fmt::format("The GPU had no memory for the {} that the last tactic requested.", asked);
    finding.confidence = Confidence::likely;
    room = {"free GPU memory before the build" + (asked.empty() ? "" : fmt::format(": at least {}", asked)),
            "headroom top",
            {}};
  }
  finding.cures = {room,
                   {"build while no other process uses the GPU", "headroom build-engine model.onnx", {}},
                   {"build with half precision: tactics then need half of the memory",
                    "trtexec --onnx=model.onnx --fp16",
                    {}}};
  return finding;
}

}  // namespace

LogRule tensorrt_node_rule() { return {"tensorrt-node", {kWords}, read, explain}; }

}  // namespace headroom::doctor
