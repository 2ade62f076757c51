// A program was killed by SIGKILL, as its starter reports it: a shell, ROS 2's launch, docker compose,
// systemd, supervisord, torchrun, a compiler's driver, make. The starter does not know who sent the signal.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

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

std::string_view without_number(std::string_view name) { return name.substr(0, name.find_last_of("-_")); }

// "detector-1", or "ws_detector_1" up to version 1: a service and the number of its container.
bool is_numbered(std::string_view name) {
  const std::string_view service = without_number(name);
  return !service.empty() && service.size() + 1 < name.size() &&
         name.find_first_not_of("0123456789", service.size() + 1) == name.npos;
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
  for (const auto& read_form : {read_alone, read_launch, read_shell})
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

void note_compose(std::string_view, LogMessage& message) {
  if (is_numbered(message.text("command"))) message.add("told_by", kCompose);
}

bool names_killed_unit(std::string_view line) { return !unit_of(line).empty(); }

void add_killed_unit(std::string_view line, LogMessage& message) {
  message.add("command", unit_of(line));
  message.add("unit", unit_of(line));
  message.add("told_by", kSystemd);
}

// Ray's line gives possible reasons only.
void end_program(std::string_view, LogMessage& message) {
  message.subject = message.text("command");
  message.ends_program = message.text("told_by") != "Ray";
}

constexpr std::string_view kKilledText = R"rules(
rule killed
  flags from_outside
  read_first read_in_code
  derive derive_killed
  add end_program
  anchors Killed || process has died || " killed  " || terminated by signal 9 || ] Error 137
  # "… after docker kill" names the sender.
  line {command:word} exited with code {:int=137} -> add=note_compose; none="after docker "
  # If systemd itself kills a unit, it announces that (announced_kills.cpp).
  line ain process exited, code=killed, status=9/KILL -> is_of_unit; check=names_killed_unit;
        add=add_killed_unit
  line DataLoader worker (pid && killed by signal: Killed -> command=a DataLoader worker
    figures (pid(s) {pid:int} || (pid {pid:int}
  line llama runner process has terminated: signal: killed -> command=a runner of Ollama
  # gunicorn
  line was sent SIGKILL! Perhaps out of memory? -> command=a worker
    figures (pid:{pid:int}
  line zsh: killed {command}
  line "fish: " && '{command}' terminated by signal SIGKILL
  # The drivers of compilers and linkers: c++, collect2, nvcc.
  line Killed signal terminated program {command:word} -> told_by=a compiler
  line internal compiler error: Killed (program {command}) -> told_by=a compiler
  line {command:word} terminated with signal 9 [Killed] -> told_by=a compiler
  line '{command:word}' died due to signal 9 -> told_by=a compiler
  # Python's subprocess.
  line Command '{command}' died with <Signals.SIGKILL
  # 137 is 128 and the signal's number: kubectl exec, PyCharm, GitHub's runner, yarn, GitLab's runner.
  line command terminated with && " exit code {:int=137}" -> command=a command in a container; told_by=kubectl
  line rocess finished with && " exit code {:int=137}" -> command=a program
  line rocess completed with && " exit code {:int=137}" -> command=a program
  line ommand failed with exit code {:int=137} -> command=a program
  line Job failed: exit code {:int=137} -> command=a program
  # What supervisord kills itself is "stopped: …".
  line " exited: {command} (terminated by SIGKILL; not expected)" -> told_by=supervisord
  line " exited: {command} (exit status 137; not expected)" -> told_by=supervisord
  # torchrun, in two lines.
  line "failed (exitcode: -9) local_rank: " -> command=a worker of torchrun; part=failed
    figures (pid: {pid:int}
  line "Signal 9 (SIGKILL) received by PID " -> command=a worker of torchrun; part=traceback
    figures received by PID {pid:int}
  line Worker exited prematurely: signal 9 (SIGKILL) -> command=a worker of Celery
  line exit codes of the workers are { && SIGKILL(-9) -> command=a worker of joblib
  line The command '{command}' returned a non-zero code: {:int=137} -> told_by=docker build
  line process "{command}" did not complete successfully: exit code: {:int=137} -> told_by=docker build
  # Ray lists possible reasons why the connection to a worker broke.
  line killed by SIGKILL by OOM killer due to high memory usage
    figures command=a worker of Ray || Worker PID: {pid:int} || told_by=Ray
  finding process-killed warning possible when told_by=Ray
    title A Ray worker ended: it may have been killed (SIGKILL)
    cause The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The
          log does not say who sent the signal.
    cure @check-kernel-log
    cure {limit_what} => {limit_command}
  finding process-killed warning possible when told_by=a compiler
    title {name} was killed (SIGKILL)
    cure compile one file at a time: each compiler process takes one GiB or more => MAX_JOBS=1
          CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND
    cure @check-kernel-log
  finding process-killed warning possible when told_by=docker build
    cure run fewer jobs at once in the build: each compiler process takes one GiB or more => ENV MAX_JOBS=1
          CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1  # of the Dockerfile
    cure @check-kernel-log
  finding process-killed warning possible when told_by=docker compose
    cure check whether the container reached its own limit => docker inspect --format '{{.State.OOMKilled}}'
          {container}
    cure @check-kernel-log
    cure set a memory limit for its service, so that only it fails, with a clear reason => mem_limit: SIZE  #
          of the service, in compose.yaml
  finding process-killed warning possible when told_by=kubectl
    cure check whether the pod reached its limit (OOMKilled) => kubectl describe pod POD
    cure raise the pod's limit => kubectl set resources deployment NAME -c CONTAINER --limits=memory=SIZE
  finding process-killed warning possible
    cure @check-kernel-log
    cure {limit_what} => {limit_command}
)rules";

}  // namespace

RuleFamily killed_rules() {
  return {kKilledText,
          {{"read_in_code", read_in_code},
           {"derive_killed", derive_killed},
           {"end_program", end_program},
           {"note_compose", note_compose},
           {"names_killed_unit", names_killed_unit},
           {"add_killed_unit", add_killed_unit}}};
}

}  // namespace headroom::doctor
