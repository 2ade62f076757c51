// A shell tells that a program of it was killed: "bash: line 1:  1234 Killed   python3 main.py"; so do ROS
// 2's launch, docker compose, kubectl, editors, PyTorch's DataLoader, Python's subprocess and the drivers of
// compilers. By whom they do not know.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"
#include "doctor/log/shell_killed.h"
#include "doctor/log/systemd_unit.h"

namespace headroom::doctor {
namespace {

// Who told it, where the cures are theirs.
constexpr std::string_view kCompiler = "a compiler", kKubectl = "kubectl";

// As it stands in a command line, where it is whole and holds nothing that a shell would do something with.
std::string command_or_word(const std::string& command) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+ ";
  const bool is_plain = !command.starts_with("a ") && command.size() < kLongestCommand &&
                        command.find_first_not_of(kPlain) == std::string::npos;
  return is_plain ? command : "COMMAND";
}

std::string_view without_number(std::string_view name) { return name.substr(0, name.find_last_of("-_")); }

// "detector-1", or "ws_detector_1" up to version 1: a service and the number of its container.
bool is_numbered(std::string_view name) {
  const std::string_view service = without_number(name);
  return !service.empty() && service.size() + 1 < name.size() &&
         name.find_first_not_of("0123456789", service.size() + 1) == name.npos;
}

// "[ERROR] [detector-1]: process has died [pid 812, exit code -9, cmd '/opt/… --ros-args'].", and without the
// quotation marks in ROS 1. The command is not taken where the line was cut.
std::optional<LogMessage> read_launch(std::string_view line) {
  if (!has(line, "process has died") || !has(line, "exit code -9")) return std::nullopt;
  const std::string_view name = source_of(line);
  LogMessage message = killed(name.empty() ? "a node" : name);
  message.add("pid", integer_after(line, "[pid "));
  message.add("told_by", kLaunch);
  auto program = text_after(line, ", cmd ");
  const std::size_t end = program ? program->rfind(']') : line.npos;
  if (end == line.npos) return message;
  program = trim(program->substr(0, end));
  if (program->size() > 1 && program->starts_with('\'') && program->ends_with('\''))
    program = program->substr(1, program->size() - 2);
  message.add("program", trim(*program));
  return message;
}

// Of those that start programs: "detector-1 exited with code 137", "DataLoader worker (pid 812) is killed by
// signal: Killed.", "zsh: killed     python3 main.py".
std::optional<LogMessage> read_starter(std::string_view line) {
  // "… after docker kill" tells by whom.
  if (const std::size_t at = line.find(" exited with code 137");
      at != line.npos && !has(line, "after docker ")) {
    const std::string_view before = line.substr(0, at), name = before.substr(before.rfind(' ') + 1);
    LogMessage message = killed(name);
    if (is_numbered(name)) message.add("told_by", kCompose);
    return message;
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
  message.add("told_by", kCompiler);
  return message;
}

// "Command '['python', 'main.py']' died with <Signals.SIGKILL: 9>."
std::optional<LogMessage> read_subprocess(std::string_view line) {
  const std::size_t end = line.find("' died with <Signals.SIGKILL");
  const auto command = text_after(line.substr(0, std::min(end, line.size())), "Command '");
  if (end == line.npos || !command) return std::nullopt;
  return killed(*command);
}

// 137 is 128 and the signal's number. PyCharm: "Process finished with exit code 137 (interrupted by signal 9:
// SIGKILL)"; GitHub's runner: "Process completed with exit code 137."; GitLab's: "ERROR: Job failed: exit
// code 137"; yarn: "error Command failed with exit code 137."; kubectl exec: "command terminated with exit
// code 137".
std::optional<LogMessage> read_exit_code(std::string_view line) {
  constexpr std::int64_t kKilled = 137;
  if (integer_after(line, " exit code ") != kKilled) return std::nullopt;
  if (has(line, "command terminated with")) {
    LogMessage message = killed("a command in a container");
    message.add("told_by", kKubectl);
    return message;
  }
  constexpr std::string_view kWho[] = {"rocess finished with", "rocess completed with",
                                       "ommand failed with exit", "Job failed: exit"};
  const bool is_told =
      std::any_of(std::begin(kWho), std::end(kWho), [&](auto who) { return has(line, who); });
  return is_told ? std::optional(killed("a program")) : std::nullopt;
}

// Without the number of a job in the background at its end: "[1]+", "[1]  -".
std::string_view without_job(std::string_view text, bool& is_job) {
  std::string_view before = trim(text);
  if (before.ends_with('+') || before.ends_with('-')) before = trim(before.substr(0, before.size() - 1));
  const std::size_t open = before.rfind('[');
  if (!before.ends_with(']') || open == before.npos || open + 2 >= before.size()) return text;
  const std::string_view number = before.substr(open + 1, before.size() - open - 2);
  const bool begins_word = open == 0 || before[open - 1] == ' ';
  is_job = begins_word && number.find_first_not_of("0123456789") == number.npos;
  return is_job ? before.substr(0, open) : text;
}

// "run.sh: line 12:  1234 Killed   python3 main.py"; and of a job in the background, with or without the
// number of its process: "[1]+  Killed   python3 main.py" (bash), "[1]  + 4312 killed     python3 main.py"
// (zsh).
std::optional<LogMessage> read_shell(std::string_view line) {
  constexpr std::string_view kOfBash = " Killed  ", kOfZsh = " killed  ";
  const std::size_t of_bash = line.find(kOfBash), at = std::min(of_bash, line.find(kOfZsh));
  if (at == line.npos) return std::nullopt;
  std::size_t digits = at;
  while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9') --digits;
  const bool is_word = digits == 0 || line[digits - 1] == ' ';
  const auto pid = is_word ? parse_number<std::int64_t>(line.substr(digits, at - digits)) : std::nullopt;
  bool is_job = false;
  // Before that stands nothing but who says it.
  const std::string_view who = trim(without_job(line.substr(0, pid ? digits : at), is_job));
  if (!who.empty() && !who.ends_with(':')) return std::nullopt;
  if (!is_job && (!pid || at != of_bash)) return std::nullopt;
  std::string_view command = trim(line.substr(at + kOfBash.size()));
  constexpr std::string_view kDumped = "(core dumped)";
  if (command.starts_with(kDumped)) command = trim(command.substr(kDumped.size()));
  if (command.empty()) return std::nullopt;
  LogMessage message = killed(command);
  message.add("pid", pid);
  message.tells_shell = true;
  return message;
}

// Without the name that docker compose or ROS 2's launch puts before what a program says: "detector-1  | ",
// "[run.sh-1] ".
std::string_view without_source(std::string_view line) {
  const std::string_view source = source_of(line);
  if (source.empty()) return trim(line);
  const std::string_view rest =
      line.substr(static_cast<std::size_t>(source.data() + source.size() - line.data()));
  return trim(rest.substr(std::min(rest.find_first_not_of(" ]|:"), rest.size())));
}

// "Killed", of an interactive shell or a script in a container; "Killed: 9" (macOS); "make: ***
// [Makefile:3: train] Killed", of a container "Error 137"; "Command terminated by signal 9" (GNU time).
std::optional<LogMessage> read_alone(std::string_view line) {
  const std::string_view text = without_source(line);
  if (text == "Killed" || text == "Killed: 9" || text.ends_with("Command terminated by signal 9")) {
    LogMessage message = killed("a program");
    message.tells_shell = true;
    return message;
  }
  const auto recipe = text_after(text, ": *** [");
  if (recipe && (recipe->ends_with("] Killed") || recipe->ends_with("] Error 137")))
    return killed("a command of make");
  return std::nullopt;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form :
       {read_alone, read_launch, read_starter, read_compiler, read_subprocess, read_exit_code, read_shell})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// The node as the launch file started it, or that file where the line does not have it.
Cure limit_node(const LogMessage& message) {
  const std::string program = message.text("program");
  std::string command = "ros2 launch PACKAGE LAUNCH_FILE";
  if (!program.empty()) {
    const auto words = split_words(program);
    command = shell_command({words.begin(), words.end()});
  }
  return {"set a memory limit, so that only this program fails, with a clear reason",
          "headroom run --limit SIZE -- " + command,
          {}};
}

// Up to version 1 compose tells the container's name, since then the service's with a number.
std::string inspect_container(std::string_view name) {
  const bool is_container = has(name, "_") && without_number(name).size() == name.rfind('_');
  return fmt::format("docker inspect --format '{{{{.State.OOMKilled}}}}' {}",
                     is_container
                         ? shell_word(name)
                         : fmt::format("$(docker compose ps -aq {})", shell_word(without_number(name))));
}

std::vector<Cure> cures_of(const LogMessage& message) {
  const Cure see_kernel{
      "check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -", {}};
  const std::string command = message.text("command"), who = message.text("told_by");
  if (who == kCompiler)
    return {{"compile one file at a time: each compiler process takes one GiB or more",
             "MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND",
             {}},
            see_kernel};
  if (who == kSystemd)
    return {see_kernel,
            set_property("set a memory limit, so that only this program fails, with a clear reason", {},
                         message.text("unit"), "MemoryMax=SIZE")};
  if (who == kLaunch) return {see_kernel, limit_node(message)};
  if (who == kCompose)
    return {{"check whether the container reached its own limit", inspect_container(command), {}},
            see_kernel,
            {"set a memory limit for its service, so that only it fails, with a clear reason",
             "mem_limit: SIZE  # of the service, in compose.yaml",
             {}}};
  if (who == kDockerBuild)
    return {{"run fewer jobs at once in the build: each compiler process takes one GiB or more",
             "ENV MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1  # of the Dockerfile",
             {}},
            see_kernel};
  if (who == kKubectl)
    return {{"check whether the pod reached its limit (OOMKilled)", "kubectl describe pod POD", {}},
            {"raise the pod's limit", set_pod_memory("limits", "SIZE", "", ""), {}}};
  return {see_kernel,
          {"set a memory limit, so that only this program fails, with a clear reason",
           "headroom run --limit SIZE -- " + (who.empty() ? command_or_word(command) : "COMMAND"),
           {}}};
}

}  // namespace

LogMessage killed(std::string_view command) {
  LogMessage message;
  message.subject = command.substr(0, kLongestCommand);
  message.add("command", message.subject);
  message.ends_program = true;
  return message;
}

Finding explain_killed(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed";
  finding.severity = Severity::warning;
  const std::string command = message.text("command");
  const std::string who = message.text("told_by");
  finding.title = who == kRay       ? "A Ray worker ended: it may have been killed (SIGKILL)"
                  : who == kSystemd ? fmt::format("{} was killed (SIGKILL)", words_for_unit(command))
                  : command.starts_with("a ") ? fmt::format("A{} was killed (SIGKILL)", command.substr(1))
                                              : fmt::format("'{}' was killed (SIGKILL)", command);
  finding.cause =
      "The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The log "
      "does not say who sent the signal.";
  finding.confidence = Confidence::possible;
  finding.cures = cures_of(message);
  return finding;
}

LogRule shell_killed_rule() {
  LogRule rule{"shell-killed",
               {"Killed", "was sent SIGKILL!", "process has died", "exited with code 137",
                "killed by signal: Killed", ": signal: killed", "zsh: killed ",
                "Killed signal terminated program ", "internal compiler error: Killed",
                "terminated with signal 9", "died due to signal 9", "died with <Signals.SIGKILL", " killed  ",
                "with exit code 137", "Job failed: exit code 137", "terminated by signal 9", "] Error 137"},
               read,
               explain_killed};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
