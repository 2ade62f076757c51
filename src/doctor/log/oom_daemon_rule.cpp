// systemd tells of a unit of which a process was killed for want of memory.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/systemd_unit.h"

namespace headroom::doctor {
namespace {

// "vision.service: Consumed 3min 2.100s CPU time, 6.1G memory peak, 0B memory swap peak.", which each unit
// has that ends.
std::optional<LogMessage> read_peak(std::string_view line) {
  const std::size_t end = line.find(" memory peak");
  if (end == line.npos || !has(line, ": Consumed ") || unit_of(line).empty()) return std::nullopt;
  const std::string_view before = line.substr(0, end);
  LogMessage message;
  message.subject = unit_of(line);
  message.is_addition = true;
  message.part = "peak";
  message.add("memory_peak_bytes", leading_size(before.substr(before.rfind(' ') + 1)));
  return message;
}

// "detector.service: A process of this unit has been killed by the OOM killer.", "session-2.scope: Failed
// with result 'oom-kill'."
std::optional<LogMessage> read_killed(std::string_view line) {
  if (!has(line, "Failed with result 'oom-kill'") && !has(line, "killed by the OOM killer"))
    return std::nullopt;
  LogMessage message;
  message.subject = unit_of(line);
  message.add("unit", message.subject);
  message.add("who", "systemd");
  message.part = has(line, "Failed with result") ? "result" : "killed";
  message.is_of_unit = true;
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto message = read_killed(line)) return message;
  return read_peak(line);
}

Finding explain(const LogMessage& message) {
  const std::string unit = message.text("unit");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  finding.title =
      fmt::format("{} was killed because memory ran out (reported by systemd)", words_for_unit(unit));
  finding.cause =
      "The machine or the control group had no memory left. The log does not say which process held it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"read the kernel's report of the kill", "journalctl -k | headroom doctor -", {}},
                   {"see which processes hold the memory", "headroom top", {}}};
  if (const auto peak = message.bytes("memory_peak_bytes"))
    finding.cause += fmt::format(" The unit's peak was {}.", format_bytes(*peak));
  if (!unit.empty())
    finding.cures.push_back(
        {"check whether the unit has its own limit",
         fmt::format("systemctl show -p MemoryMax -p MemoryHigh -p MemorySwapMax {}", shell_word(unit)),
         {}});
  return finding;
}

}  // namespace

LogRule oom_daemon_rule() {
  LogRule rule{"oom-daemon", {"result 'oom-kill'", "by the OOM killer", " memory peak"}, read, explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
