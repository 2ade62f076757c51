// A plugin of TensorRT's needs more workspace than the build gives, and there is no other way to run the
// node: "plugin node NAME requires N bytes of scratch space, but only M is available".
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kLongestNode = 100;

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // What TensorRT 7 says besides: "OutOfMemory Error in checkPluginScratchSize: 0".
  if (has(line, "in checkPluginScratchSize")) {
    message.part = "check";
    message.is_vague = true;
    return message;
  }
  const auto node = text_after(line, "plugin node ");
  const auto needs = node ? text_after(*node, "requires ") : std::nullopt;
  if (!needs || !has(*needs, " bytes of scratch space")) return std::nullopt;
  const std::string_view name = node->substr(0, node->find("requires "));
  message.add("requested_bytes", leading_size(*needs));
  message.add("available_bytes", size_after(*needs, "but only "));
  message.add("node", trim(name.substr(0, kLongestNode)));
  message.subject = message.text("node");
  message.part = "node";
  return message;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), available = message.bytes("available_bytes");
  const std::string node = message.text("node");
  Finding finding;
  finding.id = "tensorrt-workspace-too-small";
  finding.severity = Severity::severe;
  finding.title = fmt::format("{} needs {} than the build allows{}",
                              node.empty() ? "A TensorRT plugin" : "TensorRT's plugin node " + node,
                              requested ? format_bytes(*requested) + " of workspace, more" : "more workspace",
                              available ? fmt::format(" ({})", format_bytes(*available)) : "");
  finding.cause =
      "TensorRT cannot choose another implementation for a plugin. The workspace limit of the build is too "
      "small for it.";
  finding.confidence = Confidence::certain;
  constexpr std::int64_t kLeast = 16, kMib = mebibytes(1).count;
  const bool is_known = requested && !is_impossible(*requested);
  finding.cures = {
      {"give the build at least that much workspace",
       fmt::format("trtexec --onnx=model.onnx --memPoolSize=workspace:{}",
                   is_known ? std::to_string(std::max(kLeast, (requested->count + kMib - 1) / kMib))
                            : std::string("MIB")),
       {}},
      {"or build for a smaller batch or input: the plugin then needs less",
       "trtexec --onnx=model.onnx --maxShapes=INPUT:1x3x640x640",
       {}},
      {"see which processes hold GPU memory, if the GPU has less than that free", "headroom top", {}}};
  finding.first_cure_meets_cause = true;
  return finding;
}

}  // namespace

LogRule tensorrt_plugin_rule() {
  return {"tensorrt-plugin", {"of scratch space", "checkPluginScratchSize"}, read, explain};
}

}  // namespace headroom::doctor
