// GStreamer and DeepStream could not get their buffers.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // "NvDsInferContext[UID 1]: Error in NvDsInferContextImpl::allocateBuffers() … Failed to allocate cuda
  // output buffer during context initialization"
  for (const std::string_view words :
       {"Failed to allocate cuda output buffer", "Failed to allocate cuda input buffer"})
    if (has(line, words)) {
      message.add("told_by", "DeepStream");
      return message;
    }
  if (has(line, "NvBufSurfaceAllocate failed") || has(line, "NvBufSurfaceCreate failed") ||
      has(line, "nvbufsurface: Failed to allocate buffer")) {
    message.add("told_by", "NvBufSurface");
    return message;
  }
  const bool is_of_it = has(line, "element") || has(line, "gst") || has(line, "Gst") || has(line, "GST");
  if (!is_of_it || !has(line, "Failed to allocate required memory")) return std::nullopt;
  message.add("told_by", "GStreamer");
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "gstreamer-allocation-failed";
  finding.severity = Severity::severe;
  finding.title = message.text("told_by") + " could not allocate the buffers of a pipeline";
  finding.cause =
      "There is too little memory for frames of that size and number, or the driver cannot create such "
      "buffers. The message does not say which.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"see which processes hold the memory while it starts", "headroom top", {}},
      {"use fewer buffers in the decoder", "nvv4l2decoder num-extra-surfaces=0", {}},
      {"use a smaller batch and smaller frames", "nvstreammux batch-size=1 width=1280 height=720", {}}};
  return finding;
}

}  // namespace

LogRule gstreamer_rule() {
  return {"gstreamer",
          {"Failed to allocate cuda", "NvBufSurface", "nvbufsurface: Failed", "allocate required memory"},
          read,
          explain};
}

}  // namespace headroom::doctor
