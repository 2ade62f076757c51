#include "bench/conductor/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/json.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "bench/protocol.h"

namespace headroom::bench {

Result<Interrupt> Interrupt::listen() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that the shell or nohup set to be ignored stays ignored. Blocking it would deliver it to the
    // descriptor.
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    sigaddset(&signals, number);
  }
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0)
    return internal_error("cannot block signals", errno_text(errno));
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return internal_error("cannot listen for signals", errno_text(errno));
  return Interrupt(std::move(fd));
}

bool Interrupt::requested() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    signal_ = static_cast<int>(info.ssi_signo);
  return signal_ != 0;
}

namespace {
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
}

LineReader::LineReader(UniqueFd fd) : fd_(std::move(fd)) { ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK); }

void LineReader::read_available(const std::function<void(std::string_view)>& each) {
  std::array<char, 65536> buffer;
  while (fd_) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      if (!partial_.empty()) each(partial_);
      partial_.clear();
      fd_.reset();
      return;
    }
    partial_.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t start = 0;
    for (std::size_t end = 0; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1)
      each(std::string_view(partial_).substr(start, end - start));
    partial_.erase(0, start);
    if (partial_.size() <= kLongestLine) continue;
    log::warning("dropped a line of more than {} from a child process",
                 format_bytes({std::int64_t{kLongestLine}}));
    partial_.clear();
  }
}

namespace {

constexpr unsigned long kQueryOnly = 0xffffffff;
constexpr const char* kOrtTelemetryOff = "ORT_DISABLE_TELEMETRY";

}  // namespace

FixedAddresses::FixedAddresses(bool wanted) {
  if (!wanted) return;
  const int now = ::personality(kQueryOnly);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  const auto before = static_cast<unsigned long>(now);
  if (::personality(before | ADDR_NO_RANDOMIZE) >= 0) before_ = before;
}

FixedAddresses::~FixedAddresses() {
  if (before_) ::personality(*before_);
}

bool has_fixed_addresses() {
  const int now = ::personality(kQueryOnly);
  if (now >= 0 && (now & ADDR_NO_RANDOMIZE) != 0) return true;
  const auto everywhere = read_small_file("/proc/sys/kernel/randomize_va_space");
  return everywhere && everywhere->starts_with("0");
}

std::vector<std::pair<std::string, std::string>> variables_without_telemetry() {
  if (std::getenv(kOrtTelemetryOff) != nullptr) return {};
  return {{kOrtTelemetryOff, "1"}};
}

bool allows_telemetry() {
  const char* off = std::getenv(kOrtTelemetryOff);
  if (off == nullptr) return true;
  // As ONNX Runtime reads it: surrounding blanks are ignored; 0, 2, false and an empty value leave telemetry
  // on.
  const std::string value = to_lower(trim(off));
  return value != "1" && value != "true" && value != "yes" && value != "on";
}

namespace {

constexpr const char* kInterrupted = "interrupted";
constexpr const char* kSilent = "no response";
constexpr Nanoseconds kTerminateTimeout{3'000'000'000};

Json error_to_json(const Error& error) {
  return {
      {"kind", static_cast<int>(error.kind)}, {"what", error.what}, {"why", error.why}, {"fix", error.fix}};
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

void send_helper_event(std::string_view kind) { send_helper_event(kind, Json::object()); }

void send_helper_event(std::string_view kind, Json fields) {
  fields["event"] = kind;
  [[maybe_unused]] const auto ignored = write_all(kEventsFd, to_line(fields) + "\n");
}

int serve_helper(const std::function<Result<Json>(const Json&)>& work) {
  Result<Json> answer = Json::object();
  try {
    const auto text = read_descriptor(STDIN_FILENO, "the job");
    auto job = text ? parse_json(*text, "the job") : tl::unexpected(text.error());
    answer = job ? work(*job) : Result<Json>(forward_error(job));
  } catch (const std::bad_alloc&) {
    answer = failure("an allocation was refused", "out of memory", "raise --workspace");
  }
  if (answer)
    send_helper_event("done", std::move(*answer));
  else
    send_helper_event("error", error_to_json(answer.error()));
  return answer ? 0 : 1;
}

}  // namespace headroom::bench
