// A process that may not open /dev/nvmap has no GPU memory at all; that is no want of memory.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "NvRmMemInitNvmap") || !has(line, "ermission denied")) return std::nullopt;
  return LogMessage{};
}

Finding explain(const LogMessage&) {
  Finding finding;
  finding.id = "nvmap-permission";
  finding.severity = Severity::severe;
  finding.title = "The user has no access to the GPU's memory (/dev/nvmap: permission denied)";
  finding.cause =
      "Memory did not run out. The user is not in the group that owns the device, or the container lacks the "
      "device.";
  finding.cures = {
      {"add the user to the group, then log in again", "sudo usermod -aG video,render $USER", {}},
      {"pass the devices to the container", "docker run --runtime nvidia …", {}}};
  return finding;
}

}  // namespace

LogRule nvmap_permission_rule() {
  LogRule rule{"nvmap-permission", {"NvRmMemInitNvmap"}, read, explain};
  rule.is_of_memory = false;
  return rule;
}

}  // namespace headroom::doctor
