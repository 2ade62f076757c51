// A shell tells that a program of it was killed: "bash: line 1:  1234 Killed   python3 main.py"; so do ROS
// 2's launch, docker compose, PyTorch's DataLoader, Python's subprocess and the drivers of compilers. By whom
// they do not know.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kWords = " Killed  ";
constexpr std::size_t kLongestCommand = 80;

LogMessage killed(std::string_view command) {
  LogMessage message;
  message.subject = command.substr(0, kLongestCommand);
  message.add("command", message.subject);
  message.ends_program = true;
  return message;
}

// As it stands in a command line, where it is whole and holds nothing that a shell would do something with.
std::string command_or_word(const std::string& command) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+ ";
  const bool is_plain = !command.starts_with("a ") && command.size() < kLongestCommand &&
                        command.find_first_not_of(kPlain) == std::string::npos;
  return is_plain ? command : "COMMAND";
}

// Of those that start programs: "[ERROR] [detector-1]: process has died [pid 812, exit code -9, cmd '…']",
// "detector-1 exited with code 137", "DataLoader worker (pid 812) is killed by signal: Killed.", "zsh: killed
// python3 main.py".
std::optional<LogMessage> read_starter(std::string_view line) {
  if (has(line, "process has died") && has(line, "exit code -9")) {
    const std::string_view name = source_of(line);
    LogMessage message = killed(name.empty() ? "a node" : name);
    message.add("pid", integer_after(line, "[pid "));
    return message;
  }
  if (const std::size_t at = line.find(" exited with code 137"); at != line.npos) {
    const std::string_view before = line.substr(0, at);
    return killed(before.substr(before.rfind(' ') + 1));
  }
  if (has(line, "DataLoader worker (pid") && has(line, "killed by signal: Killed")) {
    LogMessage message = killed("a DataLoader worker");
    auto pid = integer_after(line, "(pid(s) ");
    message.add("pid", pid ? pid : integer_after(line, "(pid "));
    return message;
  }
  if (has(line, "llama runner process has terminated: signal: killed")) return killed("a runner of Ollama");
  // gunicorn's.
  if (has(line, "was sent SIGKILL! Perhaps out of memory?")) {
    LogMessage message = killed("a worker");
    message.add("pid", integer_after(line, "(pid:"));
    return message;
  }
  if (const auto rest = text_after(line, "zsh: killed "); rest && !trim(*rest).empty())
    return killed(trim(*rest));
  return std::nullopt;
}

// A compiler's or linker's driver, of the program that it started: "c++: fatal error: Killed signal
// terminated program cc1plus", "c++: internal compiler error: Killed (program cc1plus)", "collect2: fatal
// error: ld terminated with signal 9 [Killed]", "nvcc error   : 'cicc' died due to signal 9 (Kill signal)".
std::optional<LogMessage> read_compiler(std::string_view line) {
  const auto last_word = [](std::string_view text) { return text.substr(text.rfind(' ') + 1); };
  std::string_view program;
  if (const auto rest = text_after(line, "Killed signal terminated program "))
    program = rest->substr(0, rest->find(' '));
  else if (const auto in_brackets = text_after(line, "internal compiler error: Killed (program "))
    program = in_brackets->substr(0, in_brackets->find(')'));
  else if (const std::size_t at = line.find(" terminated with signal 9 [Killed]"); at != line.npos)
    program = last_word(line.substr(0, at));
  else if (const std::size_t quoted = line.find("' died due to signal 9"); quoted != line.npos)
    program = line.substr(0, quoted).substr(line.substr(0, quoted).rfind('\'') + 1);
  if (program.empty()) return std::nullopt;
  LogMessage message = killed(program);
  message.add("told_by", "a compiler");
  return message;
}

// "Command '['python', 'main.py']' died with <Signals.SIGKILL: 9>."
std::optional<LogMessage> read_subprocess(std::string_view line) {
  const std::size_t end = line.find("' died with <Signals.SIGKILL");
  const auto command = text_after(line.substr(0, std::min(end, line.size())), "Command '");
  if (end == line.npos || !command) return std::nullopt;
  return killed(*command);
}

std::optional<LogMessage> read(std::string_view line) {
  if (trim(line) == "Killed")
    return killed("a program");  // of an interactive shell, or a script in a container
  for (const auto& read_form : {read_starter, read_compiler, read_subprocess})
    if (auto message = read_form(line)) return message;
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
  std::string_view command = trim(line.substr(at + kWords.size()));
  constexpr std::string_view kDumped = "(core dumped)";
  if (command.starts_with(kDumped)) command = trim(command.substr(kDumped.size()));
  if (!pid || command.empty()) return std::nullopt;
  LogMessage message = killed(command);
  message.add("pid", pid);
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed";
  finding.severity = Severity::warning;
  const std::string command = message.text("command");
  finding.title = command.starts_with("a ") ? fmt::format("A{} was killed (SIGKILL)", command.substr(1))
                                            : fmt::format("'{}' was killed (SIGKILL)", command);
  finding.cause =
      "The kernel does that where memory runs out, and so do people, supervisors and schedulers; whoever "
      "started it does not tell by whom.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"see whether the kernel did it for want of memory", "journalctl -k | headroom doctor -", {}},
      {"hold it to a limit, so that it alone fails, and with a reason",
       "headroom run --limit SIZE -- " + command_or_word(command),
       {}}};
  if (!message.text("told_by").empty()) {
    finding.cures[1] = {"compile one file at a time: each compiler takes one to several GiB",
                        "MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND",
                        {}};
    std::swap(finding.cures[0], finding.cures[1]);
  }
  return finding;
}

}  // namespace

LogRule shell_killed_rule() {
  LogRule rule{"shell-killed",
               {"Killed", "was sent SIGKILL!", "process has died", "exited with code 137",
                "killed by signal: Killed", ": signal: killed", "zsh: killed ",
                "Killed signal terminated program ", "internal compiler error: Killed",
                "terminated with signal 9", "died due to signal 9", "died with <Signals.SIGKILL"},
               read,
               explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
