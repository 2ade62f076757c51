// systemd, systemd-oomd, earlyoom, Docker and Kubernetes tell of a process that was killed for want of
// memory.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kOomd = "systemd-oomd", *kEarlyOom = "earlyoom";

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
  // "Killed /user.slice/…/app-x.scope due to memory pressure for /user.slice/… being 62.10% > 50.00% for …"
  if (const auto path = text_after(line, "Killed ");
      path && has(line, "systemd-oomd") && has(*path, " due to ")) {
    const std::string_view group = path->substr(0, path->find(" due to "));
    message.subject = group.substr(group.rfind('/') + 1);
    message.add("unit", message.subject);
    if (const auto pressure = text_after(*path, " being "); pressure && has(*pressure, " for "))
      message.add("pressure", pressure->substr(0, pressure->find(" for ")));
    message.add("who", kOomd);
    return message;
  }
  // "sending SIGTERM to process 4321 uid 1000 "python3": badness 800, VmRSS 3456 MiB"
  if (has(line, "sending SIG") && has(line, "badness ")) {
    message.add("who", kEarlyOom);
    message.add("pid", integer_after(line, " to process "));
    if (const auto name = text_after(line, " \""); name && name->find('"') != name->npos)
      message.add("victim", name->substr(0, name->find('"')));
    message.add("resident_bytes", size_after(line, "VmRSS "));
    return message;
  }
  // kubelet's: "System OOM encountered, victim process: infer, pid: 99123"
  if (const auto name = text_after(line, "System OOM encountered, victim process: ")) {
    message.add("who", "Kubernetes");
    message.add("victim", name->substr(0, name->find(',')));
    message.add("pid", integer_after(line, ", pid: "));
    return message;
  }
  if (has(line, "container oom ")) {  // docker events
    message.add("who", "Docker");
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
  const std::string unit = message.text("unit"), victim = message.text("victim"), who = message.text("who");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  const auto pid = message.number("pid");
  const std::string name = !victim.empty() && pid ? fmt::format("{} (process {})", victim, *pid)
                           : unit.empty()         ? "A process"
                           : who == kOomd         ? unit
                                                  : "The service " + unit;
  finding.title = fmt::format("{} was killed for want of memory (told by {})", name, who);
  finding.cause = "The machine or the control group had no memory left; this line does not tell who held it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"read the kernel's own report of it", "journalctl -k | headroom doctor -", {}},
                   {"see who holds the memory", "headroom top", {}}};
  // These two act before the kernel has to, which writes no report then.
  if (who != kOomd && who != kEarlyOom) return finding;
  finding.cures.erase(finding.cures.begin());
  const std::string pressure = message.text("pressure");
  if (who == kOomd) {
    finding.cause = fmt::format(
        "Memory was short, not gone: systemd-oomd ends a group when its tasks wait for memory "
        "too long{}.",
        pressure.empty() ? "" : fmt::format(" ({})", pressure));
    finding.cures.push_back({"let it choose another first",
                             fmt::format("sudo systemctl set-property {} ManagedOOMPreference=avoid",
                                         unit.empty() ? "UNIT" : unit),
                             {}});
  } else {
    finding.cause =
        "Little memory and swap were left: earlyoom ends the largest process before the kernel has to.";
    finding.cures.push_back({"let it choose another first",
                             fmt::format("earlyoom --avoid '^{}$'", victim.empty() ? "NAME" : victim),
                             {}});
  }
  return finding;
}

}  // namespace

LogRule oom_daemon_rule() {
  LogRule rule{"oom-daemon",
               {"System OOM encountered", "container oom ", "result 'oom-kill'", "by the OOM killer",
                "systemd-oomd", ": badness ", "OOMKilled"},
               read,
               explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
