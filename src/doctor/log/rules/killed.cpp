// A program was killed by SIGKILL, as its starter reports it: a shell, ROS 2's launch, docker compose,
// systemd, supervisord, torchrun, a compiler's driver, make. The starter does not know who sent the signal.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"
#include "doctor/log/systemd_unit.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kLongestCommand = 80;  // of a command line, this much is kept

LogMessage killed(std::string_view command) {
  LogMessage message;
  message.subject = command.substr(0, kLongestCommand);
  message.add("command", message.subject);
  message.ends_program = true;
  return message;
}

// A row of the table below: `all`, and the figures "command" and others.
Wording killed_row(std::vector<std::string_view> all, std::vector<std::string_view> figures,
                   std::string_view part = {}) {
  return {.all = std::move(all),
          .figures = std::move(figures),
          .subject = "{command}",
          .part = part,
          .traits = {.ends_program = true}};
}

std::string_view without_number(std::string_view name) { return name.substr(0, name.find_last_of("-_")); }

// "detector-1", or "ws_detector_1" up to version 1: a service and the number of its container.
bool is_numbered(std::string_view name) {
  const std::string_view service = without_number(name);
  return !service.empty() && service.size() + 1 < name.size() &&
         name.find_first_not_of("0123456789", service.size() + 1) == name.npos;
}

// "detector-1 exited with code 137". "… after docker kill" names the sender.
std::optional<LogMessage> read_compose(std::string_view line) {
  const std::size_t at = line.find(" exited with code 137");
  if (at == line.npos || has(line, "after docker ")) return std::nullopt;
  const std::string_view before = line.substr(0, at), name = before.substr(before.rfind(' ') + 1);
  LogMessage message = killed(name);
  if (is_numbered(name)) message.add("told_by", kCompose);
  return message;
}

// "[ERROR] [detector-1]: process has died [pid 812, exit code -9, cmd '/opt/… --ros-args'].", and without the
// quotation marks in ROS 1. A command that was cut is left out.
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

// "vision.service: Main process exited, code=killed, status=9/KILL". If systemd itself kills a unit, it
// announces that (announced_kills.cpp).
std::optional<LogMessage> read_systemd(std::string_view line) {
  if (!has(line, "ain process exited, code=killed, status=9/KILL")) return std::nullopt;
  const std::string_view unit = unit_of(line);
  if (unit.empty()) return std::nullopt;
  LogMessage message = killed(unit);
  message.is_of_unit = true;
  message.add("unit", unit);
  message.add("told_by", kSystemd);
  return message;
}

// Removes the number of a background job at the end: "[1]+", "[1]  -".
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

// "run.sh: line 12:  1234 Killed   python3 main.py"; of a background job, with or without its process number:
// "[1]+  Killed   python3 main.py" (bash), "[1]  + 4312 killed     python3 main.py" (zsh).
std::optional<LogMessage> read_shell(std::string_view line) {
  constexpr std::string_view kOfBash = " Killed  ", kOfZsh = " killed  ";
  const std::size_t of_bash = line.find(kOfBash), at = std::min(of_bash, line.find(kOfZsh));
  if (at == line.npos) return std::nullopt;
  std::size_t digits = at;
  while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9') --digits;
  const bool is_word = digits == 0 || line[digits - 1] == ' ';
  const auto pid = is_word ? parse_number<std::int64_t>(line.substr(digits, at - digits)) : std::nullopt;
  bool is_job = false;
  // Only the shell's name may stand before that.
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

// Removes the name that docker compose or ROS 2's launch puts before a program's output: "detector-1  | ",
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

std::optional<LogMessage> read_in_code(std::string_view line) {
  for (const auto& read_form : {read_alone, read_launch, read_compose, read_systemd, read_shell})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// The command for "headroom run", if it is whole and has no character that a shell interprets.
std::string program_of(const LogMessage& message) {
  const std::string command = message.text("command"), who = message.text("told_by"),
                    program = message.text("program");
  if (who == kLaunch) {
    if (program.empty()) return "ros2 launch PACKAGE LAUNCH_FILE";
    const auto words = split_words(program);
    return shell_command({words.begin(), words.end()});
  }
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+ ";
  const bool is_whole = who.empty() && !command.starts_with("a ") && command.size() < kLongestCommand &&
                        command.find_first_not_of(kPlain) == std::string::npos;
  return is_whole ? command : "COMMAND";
}

// Up to version 1, docker compose prints the container's name; later, the service's name with a number.
std::string container_of(std::string_view name) {
  const bool is_container = has(name, "_") && without_number(name).size() == name.rfind('_');
  return is_container ? shell_word(name)
                      : fmt::format("$(docker compose ps -aq {})", shell_word(without_number(name)));
}

void derive_killed(LogMessage& message) {
  const std::string command = message.text("command"), who = message.text("told_by");
  message.add("name", who == kSystemd             ? words_for_unit(command)
                      : command.starts_with("a ") ? "A" + command.substr(1)
                                                  : fmt::format("'{}'", command));
  if (who == kCompose) message.add("container", container_of(command));
  Cure limit{"set a memory limit, so that only this program fails, with a clear reason",
             "headroom run --limit SIZE -- " + program_of(message)};
  if (who == kSystemd) limit = set_property(limit.what, {}, message.text("unit"), "MemoryMax=SIZE");
  message.add("limit_what", limit.what);
  message.add("limit_command", limit.command);
}

Explanation explanation(std::string_view when, std::vector<CureRow> cures,
                        std::string_view title = "{name} was killed (SIGKILL)") {
  return {.when = when,
          .id = "process-killed",
          .severity = Severity::warning,
          .confidence = Confidence::possible,
          .title = title,
          .cause = kSigkillCause,
          .cures = std::move(cures)};
}

}  // namespace

LogRule killed_rule() {
  constexpr CureRow kLimit{"{limit_what}", "{limit_command}"};
  return {
      .name = "killed",
      .anchors = {"Killed", "process has died", "exited with code 137", " killed  ", "terminated by signal 9",
                  "] Error 137", "code=killed, status=9/KILL"},
      .read_first = read_in_code,
      .from_outside = true,
      .wordings =
          {killed_row({"DataLoader worker (pid", "killed by signal: Killed"},
                      {"command=a DataLoader worker", "(pid(s) {pid:int}", "(pid {pid:int}"}),
           killed_row({"llama runner process has terminated: signal: killed"},
                      {"command=a runner of Ollama"}),
           // gunicorn
           killed_row({"was sent SIGKILL! Perhaps out of memory?"}, {"command=a worker", "(pid:{pid:int}"}),
           killed_row({"zsh: killed {command}"}, {}),
           killed_row({"fish: ", "'{command}' terminated by signal SIGKILL"}, {}),
           // The drivers of compilers and linkers: c++, collect2, nvcc.
           killed_row({"Killed signal terminated program {command:word}"}, {"told_by=a compiler"}),
           killed_row({"internal compiler error: Killed (program {command})"}, {"told_by=a compiler"}),
           killed_row({"{command:word} terminated with signal 9 [Killed]"}, {"told_by=a compiler"}),
           killed_row({"'{command:word}' died due to signal 9"}, {"told_by=a compiler"}),
           // Python's subprocess.
           killed_row({"Command '{command}' died with <Signals.SIGKILL"}, {}),
           // 137 is 128 and the signal's number: kubectl exec, PyCharm, GitHub's runner, yarn, GitLab's
           // runner.
           killed_row({"command terminated with", " exit code {:int=137}"},
                      {"command=a command in a container", "told_by=kubectl"}),
           killed_row({"rocess finished with", " exit code {:int=137}"}, {"command=a program"}),
           killed_row({"rocess completed with", " exit code {:int=137}"}, {"command=a program"}),
           killed_row({"ommand failed with exit code {:int=137}"}, {"command=a program"}),
           killed_row({"Job failed: exit code {:int=137}"}, {"command=a program"}),
           // What supervisord kills itself is "stopped: …".
           killed_row({" exited: {command} (terminated by SIGKILL; not expected)"}, {"told_by=supervisord"}),
           killed_row({" exited: {command} (exit status 137; not expected)"}, {"told_by=supervisord"}),
           // torchrun, in two lines.
           killed_row({"failed (exitcode: -9) local_rank: "},
                      {"command=a worker of torchrun", "(pid: {pid:int}"}, "failed"),
           killed_row({"Signal 9 (SIGKILL) received by PID "},
                      {"command=a worker of torchrun", "received by PID {pid:int}"}, "traceback"),
           killed_row({"Worker exited prematurely: signal 9 (SIGKILL)"}, {"command=a worker of Celery"}),
           killed_row({"exit codes of the workers are {", "SIGKILL(-9)"}, {"command=a worker of joblib"}),
           killed_row({"The command '{command}' returned a non-zero code: {:int=137}"},
                      {"told_by=docker build"}),
           killed_row({"process \"{command}\" did not complete successfully: exit code: {:int=137}"},
                      {"told_by=docker build"}),
           // Ray lists possible reasons why the connection to a worker broke.
           {.all = {"killed by SIGKILL by OOM killer due to high memory usage"},
            .figures = {"command=a worker of Ray", "Worker PID: {pid:int}", "told_by=Ray"},
            .subject = "{command}"}},
      .explanations =
          {explanation("told_by=Ray", {kCheckKernelLog, kLimit},
                       "A Ray worker ended: it may have been killed (SIGKILL)"),
           explanation("told_by=a compiler",
                       {{"compile one file at a time: each compiler process takes one GiB or more",
                         "MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND"},
                        kCheckKernelLog}),
           explanation("told_by=docker build",
                       {{"run fewer jobs at once in the build: each compiler process takes one GiB or more",
                         "ENV MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1  # of the Dockerfile"},
                        kCheckKernelLog}),
           explanation("told_by=docker compose",
                       {{"check whether the container reached its own limit",
                         "docker inspect --format '{{.State.OOMKilled}}' {container}"},
                        kCheckKernelLog,
                        {"set a memory limit for its service, so that only it fails, with a clear reason",
                         "mem_limit: SIZE  # of the service, in compose.yaml"}}),
           explanation("told_by=kubectl",
                       {{"check whether the pod reached its limit (OOMKilled)", "kubectl describe pod POD"},
                        {"raise the pod's limit",
                         "kubectl set resources deployment NAME -c CONTAINER --limits=memory=SIZE"}}),
           explanation("", {kCheckKernelLog, kLimit})},
      .derive = derive_killed};
}

}  // namespace headroom::doctor
