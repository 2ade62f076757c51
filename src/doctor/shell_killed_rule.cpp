// A shell tells that a program of it was killed: "bash: line 1:  1234 Killed   python3 main.py". By whom it
// does not know.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kWords = " Killed  ";
constexpr std::size_t kLongestCommand = 80;

std::optional<LogMessage> read(std::string_view line) {
  const std::size_t at = line.find(kWords);
  if (at == line.npos) return std::nullopt;
  // The number of the process stands before it.
  std::size_t digits = at;
  while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9') --digits;
  // And before that nothing but who says it.
  const std::string_view who = trim(line.substr(0, digits));
  const bool has_number =
      digits < at && (who.empty() || who.ends_with(':')) && (digits == 0 || line[digits - 1] == ' ');
  const auto pid = has_number ? parse_number<std::int64_t>(line.substr(digits, at - digits)) : std::nullopt;
  const std::string_view command = trim(line.substr(at + kWords.size()));
  if (!pid || command.empty()) return std::nullopt;
  LogMessage message;
  message.subject = command.substr(0, kLongestCommand);
  message.add("pid", pid);
  message.add("command", message.subject);
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed";
  finding.severity = Severity::warning;
  finding.title = fmt::format("'{}' was killed (SIGKILL)", message.text("command"));
  finding.cause =
      "The kernel does that where memory runs out, and so do people, supervisors and schedulers; the shell "
      "does "
      "not tell by whom.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"see whether the kernel did it for want of memory", "journalctl -k | headroom doctor -", {}},
      {"hold it to a limit, so that it alone fails, and with a reason",
       "headroom run --limit SIZE -- COMMAND",
       {}}};
  return finding;
}

}  // namespace

LogRule shell_killed_rule() {
  LogRule rule{"shell-killed", {kWords}, read, explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
