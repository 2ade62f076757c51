// The Jetson's camera stack (Argus, and SCF below it) had no memory: its errors have NVIDIA's own names.
#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  const auto place = text_after(line, "Error InsufficientMemory:");
  if (!place || !(has(line, "Argus") || has(line, "SCF: ") || has(line, "(Nv"))) return std::nullopt;
  LogMessage message;
  // "(propagating from src/…, function X(), line N)": one failure is told by each that it passes through.
  message.part = trim(*place);
  return message;
}

Finding explain(const LogMessage&) {
  Finding finding;
  finding.id = "camera-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "The Jetson's camera stack (Argus) could not allocate its buffers";
  finding.cause =
      "A camera stream allocates several full-size frames from NvMap. NvMap uses free pages only, not the "
      "page cache. The program may continue with a camera that delivers no more frames.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"see which processes hold the memory while it starts", "headroom top", {}},
      {"drop the page cache, and restart the camera service",
       "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches; sudo systemctl restart nvargus-daemon",
       {}},
      {"use a sensor mode with a smaller resolution", "nvarguscamerasrc sensor-id=0 sensor-mode=MODE", {}},
      keep_pages_free({})};
  return finding;
}

}  // namespace

LogRule argus_rule() { return {"argus", {"InsufficientMemory:"}, read, explain}; }

}  // namespace headroom::doctor
