#include "bench/conductor/helper_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <new>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "bench/conductor/child_environment.h"
#include "bench/line_reader.h"
#include "bench/protocol.h"

namespace headroom::bench {
namespace {

constexpr const char* kInterrupted = "interrupted";
constexpr const char* kSilent = "no response";
constexpr Nanoseconds kTerminateTimeout{3'000'000'000};

Json to_json(const Error& error) {
  Json object;
  object["event"] = "error";
  object["kind"] = static_cast<int>(error.kind);
  object["what"] = error.what;
  object["why"] = error.why;
  object["fix"] = error.fix;
  return object;
}

Error error_from_json(const Json& event) {
  const auto kind = get_integer(event, "kind").value_or(static_cast<int>(ErrorKind::internal));
  Error error;
  error.kind = kind >= 0 && kind <= 3 ? static_cast<ErrorKind>(kind) : ErrorKind::internal;
  error.what = get_text(event, "what");
  error.why = get_text(event, "why");
  error.fix = get_text(event, "fix");
  return error;
}

std::string while_in_step(const HelperPlan& plan) {
  const std::string what = plan.current_step ? plan.current_step() : std::string();
  return what.empty() ? what : " while " + what;
}

std::string how_it_died(const HelperPlan& plan, const ExitStatus& status, std::int64_t oom_kills_before) {
  const bool at_limit =
      plan.limit != nullptr && plan.limit->account().oom_kills.value_or(0) > oom_kills_before;
  if (at_limit)
    return fmt::format("the kernel killed it at its limit of {}{}; raise {}",
                       format_bytes(plan.limit->bytes()), while_in_step(plan), plan.limit_flag);
  return fmt::format("its process ended with {}{}", status.describe(), while_in_step(plan));
}

}  // namespace

bool was_interrupted(const Error& error) { return error.why == kInterrupted; }
bool was_silent(const Error& error) { return error.why.starts_with(kSilent); }

Result<Json> run_helper(const HelperPlan& plan, const Json& job, Interrupt& interrupt) {
  auto job_pipe = Pipe::create();
  auto events_pipe = Pipe::create();
  auto log_pipe = Pipe::create();
  if (!job_pipe || !events_pipe || !log_pipe)
    return internal_error("cannot create pipes", errno_text(errno), "raise the limit on open files");
  SpawnOptions options;
  options.command = {own_executable().string(), plan.verb};
  options.environment = plan.environment;
  for (const auto& variable : variables_without_telemetry()) options.environment.push_back(variable);
  options.stdin_fd = job_pipe->read_end.get();
  options.stdout_fd = log_pipe->write_end.get();
  options.stderr_fd = log_pipe->write_end.get();
  options.inherited = {{events_pipe->write_end.get(), kEventsFd}};
  std::int64_t oom_kills_before = 0;
  if (plan.limit != nullptr) {
    options.before_exec = plan.limit->entry();
    oom_kills_before = plan.limit->account().oom_kills.value_or(0);
  }
  auto child = Subprocess::spawn(options);
  if (!child) return forward_error(child);
  job_pipe->read_end.reset();
  events_pipe->write_end.reset();
  log_pipe->write_end.reset();
  [[maybe_unused]] const auto sent = write_all(job_pipe->write_end.get(), to_line(job));
  job_pipe->write_end.reset();

  LineReader events(std::move(events_pipe->read_end));
  LineReader log_lines(std::move(log_pipe->read_end));
  Nanoseconds last_sign = monotonic_now();
  std::optional<Json> answer;
  const auto on_event = [&](std::string_view line) {
    last_sign = monotonic_now();
    auto event = parse_json(line, "a helper's event");
    if (!event) return;
    const std::string kind = get_text(*event, "event");
    if (kind == "done" || kind == "error")
      answer = std::move(*event);
    else if (plan.on_event)
      plan.on_event(*event);
  };
  const auto on_log = [&](std::string_view line) {
    constexpr std::string_view kError = "error: ";
    if (plan.repeats_errors && line.starts_with(kError))
      log::error("{}", line.substr(kError.size()));
    else
      log::debug("[{}] {}", plan.verb, line);
  };
  while (events.open()) {
    std::array<pollfd, 3> polled{
        {{interrupt.fd(), POLLIN, 0}, {events.fd(), POLLIN, 0}, {log_lines.fd(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), 200);
    if (interrupt.requested()) {
      child->signal(SIGTERM);
      if (!child->wait_for(kTerminateTimeout)) child->signal(SIGKILL);
      child->wait();
      return failure(plan.purpose + " was stopped", kInterrupted);
    }
    events.read_available(on_event);
    log_lines.read_available(on_log);
    if (monotonic_now() - last_sign > plan.timeout) {
      child->signal(SIGKILL);
      child->wait();
      return failure(plan.purpose + " failed",
                     fmt::format("{} for {}{}", kSilent, format_duration(plan.timeout), while_in_step(plan)),
                     "raise --timeout if it is only slow");
    }
  }
  const ExitStatus status = child->wait();
  log_lines.read_available(on_log);
  if (!answer) return failure(plan.purpose + " failed", how_it_died(plan, status, oom_kills_before));
  if (get_text(*answer, "event") == "error") return tl::unexpected<Error>(error_from_json(*answer));
  return std::move(*answer);
}

void send_helper_event(const Json& event) {
  [[maybe_unused]] const auto ignored = write_all(kEventsFd, to_line(event) + "\n");
}

int serve_helper(const std::function<Result<Json>(const Json&)>& work) {
  std::string text;
  std::array<char, 65536> buffer;
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  Result<Json> answer = Json::object();
  try {
    auto job = parse_json(text, "the job");
    answer = job ? work(*job) : Result<Json>(forward_error(job));
  } catch (const std::bad_alloc&) {
    answer = failure("an allocation was refused", "out of memory", "raise --workspace");
  }
  if (!answer) {
    send_helper_event(to_json(answer.error()));
    return 1;
  }
  (*answer)["event"] = "done";
  send_helper_event(*answer);
  return 0;
}

}  // namespace headroom::bench
