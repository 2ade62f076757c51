// Who supervises programs tells that one of them was killed: systemd, supervisord, torchrun, Horovod,
// PostgreSQL, Celery, joblib, uWSGI, Ray, docker build, fish.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/shell_killed.h"
#include "doctor/log/systemd_unit.h"

namespace headroom::doctor {
namespace {

// "INFO exited: detector (terminated by SIGKILL; not expected)", "WARN exited: detector (exit status 137; not
// expected)". What supervisord kills itself is "stopped: …".
std::optional<LogMessage> read_supervisord(std::string_view line) {
  const auto name = text_after(line, " exited: ");
  if (!name || !(has(*name, " (terminated by SIGKILL; not expected)") ||
                 has(*name, " (exit status 137; not expected)")))
    return std::nullopt;
  LogMessage message = killed(name->substr(0, name->find(" (")));
  message.add("told_by", kSupervisord);
  return message;
}

// "vision.service: Main process exited, code=killed, status=9/KILL". What systemd kills itself it announces
// (announced_kills.cpp).
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

// "DAMN ! worker 2 (pid: 178) died, killed by signal 9 :( trying respawn ..."
std::optional<LogMessage> read_uwsgi(std::string_view line) {
  const auto worker = text_after(line, "DAMN ! worker ");
  if (!worker || !has(*worker, " died, killed by signal 9 ")) return std::nullopt;
  LogMessage message = killed("a worker of uWSGI");
  message.add("pid", integer_after(*worker, "(pid: "));
  message.add("told_by", kUwsgi);
  return message;
}

// Horovod's ranks, in two lines: "[0]<stderr>:Killed" and "Process 0 exit with status code 137."
std::optional<LogMessage> read_horovod(std::string_view line) {
  const std::string_view text = trim(line);
  const auto rank_in = [&](std::string_view begin, std::string_view end) -> std::optional<std::int64_t> {
    if (!text.starts_with(begin) || !text.ends_with(end)) return std::nullopt;
    const std::string_view number = text.substr(begin.size(), text.size() - begin.size() - end.size());
    return parse_number<std::int64_t>(number);
  };
  auto rank = rank_in("[", "]<stderr>:Killed");
  const bool is_of_shell = rank.has_value();
  if (!rank) rank = rank_in("Process ", " exit with status code 137.");
  if (!rank) return std::nullopt;
  LogMessage message = killed(fmt::format("a process of Horovod, rank {},", *rank));
  message.add("rank", rank);
  message.part = is_of_shell ? "killed" : "exit";
  return message;
}

// Ray's of a worker whose connection broke, in a list of what it may have been: "A worker died or was killed
// … Worker PID: 261 … (1) The process is killed by SIGKILL by OOM killer due to high memory usage. …"
std::optional<LogMessage> read_ray(std::string_view line) {
  if (!has(line, "killed by SIGKILL by OOM killer due to high memory usage")) return std::nullopt;
  LogMessage message = killed("a worker of Ray");
  message.ends_program = false;
  message.add("pid", integer_after(line, "Worker PID: "));
  message.add("told_by", kRay);
  return message;
}

// torchrun's, in two lines: "failed (exitcode: -9) local_rank: 0 (pid: 4312) of binary: /usr/bin/python3" and
// "traceback : Signal 9 (SIGKILL) received by PID 4312".
std::optional<LogMessage> read_torchrun(std::string_view line) {
  const auto failed = text_after(line, "failed (exitcode: -9) local_rank: ");
  const auto received = text_after(line, "Signal 9 (SIGKILL) received by PID ");
  if (!failed && !received) return std::nullopt;
  LogMessage message = killed("a worker of torchrun");
  message.add("pid", failed ? integer_after(*failed, "(pid: ") : integer_after(*received, ""));
  message.part = failed ? "failed" : "traceback";
  return message;
}

// "LOG:  server process (PID 4312) was terminated by signal 9: Killed"
std::optional<LogMessage> read_postgresql(std::string_view line) {
  const std::size_t end = line.find(" was terminated by signal 9: Killed");
  if (end == line.npos) return std::nullopt;
  const std::string_view before = line.substr(0, end);
  const std::size_t open = before.rfind(" (PID ");
  LogMessage message = killed("a process of PostgreSQL");
  if (open != before.npos) message.add("pid", integer_after(before.substr(open), " (PID "));
  return message;
}

// Celery's and joblib's pools: "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9
// (SIGKILL) Job: 0.", "The exit codes of the workers are {SIGKILL(-9)}".
std::optional<LogMessage> read_pool(std::string_view line) {
  if (has(line, "Worker exited prematurely: signal 9 (SIGKILL)")) return killed("a worker of Celery");
  if (has(line, "exit codes of the workers are {") && has(line, "SIGKILL(-9)"))
    return killed("a worker of joblib");
  return std::nullopt;
}

// "The command '/bin/sh -c make' returned a non-zero code: 137"; BuildKit: "process "/bin/sh -c make" did not
// complete successfully: exit code: 137".
std::optional<LogMessage> read_build(std::string_view line) {
  constexpr std::int64_t kKilled = 137;
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {
      {"The command '", "' returned a non-zero code: "},
      {"process \"", "\" did not complete successfully: exit code: "}};
  for (const auto& [before, behind] : kForms) {
    const auto command = text_after(line, before);
    if (!command || integer_after(*command, behind) != kKilled) continue;
    LogMessage message = killed(command->substr(0, command->find(behind)));
    message.add("told_by", kDockerBuild);
    return message;
  }
  return std::nullopt;
}

// "fish: Job 1, 'python3 main.py' terminated by signal SIGKILL (Forced quit)", without a job's number up
// to 3.1.
std::optional<LogMessage> read_fish(std::string_view line) {
  const std::size_t end = line.find("' terminated by signal SIGKILL");
  const auto job = text_after(line.substr(0, std::min(end, line.size())), "fish: ");
  if (end == line.npos || !job) return std::nullopt;
  return killed(job->substr(job->find('\'') + 1));
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_systemd, read_supervisord, read_torchrun, read_horovod, read_postgresql,
                                read_pool, read_uwsgi, read_ray, read_build, read_fish})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

}  // namespace

LogRule supervisor_killed_rule() {
  LogRule rule{
      "supervisor-killed",
      {" (terminated by SIGKILL; not", " (exit status 137; not", "(exitcode: -9)",
       "Signal 9 (SIGKILL) received", "terminated by signal 9: Killed", "exited prematurely: signal 9",
       "SIGKILL(-9)", "non-zero code: 137", "successfully: exit code: 137", "terminated by signal SIGKILL",
       "code=killed, status=9/KILL", "died, killed by signal 9 ", "]<stderr>:Killed", "code 137.",
       "killed by SIGKILL by OOM killer"},
      read,
      explain_killed};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
