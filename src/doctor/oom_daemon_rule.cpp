// systemd, systemd-oomd, earlyoom, Docker and Kubernetes tell of a process that was killed for want of
// memory.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "Failed with result 'oom-kill'") || has(line, "killed by the OOM killer")) {
    const std::size_t end = line.find(".service: ");
    if (end != line.npos) {
      const std::size_t begin = line.substr(0, end).rfind(' ');
      message.subject =
          line.substr(begin == line.npos ? 0 : begin + 1, end - (begin == line.npos ? 0 : begin + 1));
    }
    message.add("unit", message.subject);
    message.add("who", "systemd");
    message.part = has(line, "Failed with result") ? "result" : "killed";
    return message;
  }
  if (has(line, "systemd-oomd") && has(line, "Killed ") && has(line, " due to ")) {
    message.add("who", "systemd-oomd");
    return message;
  }
  if (has(line, "sending SIG") && has(line, "badness ")) {
    message.add("who", "earlyoom");
    message.add("resident_bytes", size_after(line, "VmRSS "));
    return message;
  }
  if (has(line, "\"OOMKilled\": true") || has(line, "\"OOMKilled\":true")) {
    message.add("who", "Docker");
    return message;
  }
  // False, with a reason of its own.
  if (has(line, "\"OOMKilled\"") || has(line, "OOMKilled=false") || has(line, "OOMKilled: false"))
    return std::nullopt;
  if (has(line, "OOMKilled") && (has(line, "Reason") || has(line, "reason"))) {
    message.add("who", "Kubernetes");
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const std::string unit = message.text("unit");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("{}{} was killed for want of memory (told by {})",
                              unit.empty() ? "A process" : "The service ", unit, message.text("who"));
  finding.cause = "The machine or the control group had no memory left; this line does not tell who held it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"read the kernel's own report of it", "journalctl -k | headroom doctor -", {}},
                   {"see who holds the memory", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule oom_daemon_rule() {
  LogRule rule{"oom-daemon",
               {"result 'oom-kill'", "by the OOM killer", "systemd-oomd", ": badness ", "OOMKilled"},
               read,
               explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
