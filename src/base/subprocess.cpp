#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <utility>

namespace headroom {
namespace {

// sigabbrev_np() needs glibc 2.32.
std::string_view abbreviation_of(int signal) {
  static constexpr std::pair<int, std::string_view> kNames[] = {
      {SIGHUP, "HUP"},   {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
      {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},   {SIGFPE, "FPE"},   {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
      {SIGSEGV, "SEGV"}, {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
      {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}, {SIGSYS, "SYS"}};
  for (const auto& [number, name] : kNames)
    if (number == signal) return name;
  return "?";
}

}  // namespace

std::string ExitStatus::describe() const {
  if (signal == 0) return fmt::format("exit code {}", exit_code);
  return fmt::format("SIG{} (signal {})", abbreviation_of(signal), signal);
}

Result<Pipe> Pipe::create() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return internal_error("cannot create a pipe", errno_text(errno));
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(other.pid_), own_group_(other.own_group_), status_(other.status_) {
  other.pid_ = -1;
}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this != &other) {
    this->~Subprocess();
    pid_ = other.pid_;
    own_group_ = other.own_group_;
    status_ = other.status_;
    other.pid_ = -1;
  }
  return *this;
}

Subprocess::~Subprocess() {
  if (running()) {
    signal(SIGKILL);
    wait();
  }
  pid_ = -1;
}

namespace {

// Child side only: after fork, nothing here may allocate or lock.
[[noreturn]] void report_and_exit(int report_fd, int code) {
  [[maybe_unused]] const ssize_t sent = ::write(report_fd, &code, sizeof code);
  ::_exit(127);
}

// Moves each wanted descriptor to its number. All sources first move above the targets, so no target
// overwrites one.
int place_descriptors(std::vector<std::pair<int, int>>& wanted, int first_free) {
  for (auto& [from, to] : wanted) {
    from = ::fcntl(from, F_DUPFD_CLOEXEC, first_free);
    if (from < 0) return errno;
  }
  for (const auto& [from, to] : wanted)
    if (::dup2(from, to) < 0) return errno;
  return 0;
}

}  // namespace

Result<Subprocess> Subprocess::spawn(const SpawnOptions& options) {
  if (options.command.empty()) return internal_error("cannot start a process without a command");
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto overridden = [&](const auto& pair) { return text.starts_with(pair.first + "="); };
    if (std::none_of(options.environment.begin(), options.environment.end(), overridden))
      environment.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  std::vector<char*> argument_pointers;
  for (const std::string& argument : options.command)
    argument_pointers.push_back(const_cast<char*>(argument.c_str()));
  argument_pointers.push_back(nullptr);
  std::vector<char*> environment_pointers;
  for (const std::string& entry : environment)
    environment_pointers.push_back(const_cast<char*>(entry.c_str()));
  environment_pointers.push_back(nullptr);

  UniqueFd null_device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_device) return internal_error("cannot open /dev/null", errno_text(errno));
  std::vector<std::pair<int, int>> wanted = options.inherited;
  wanted.emplace_back(options.stdin_fd >= 0 ? options.stdin_fd : null_device.get(), 0);
  wanted.emplace_back(options.stdout_fd >= 0 ? options.stdout_fd : null_device.get(), 1);
  wanted.emplace_back(options.stderr_fd >= 0 ? options.stderr_fd : STDERR_FILENO, 2);
  int highest = 2;
  for (const auto& [from, to] : wanted) highest = std::max(highest, to);

  auto report = Pipe::create();
  if (!report) return forward_error(report);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    return internal_error(fmt::format("cannot start {}", options.command[0]), errno_text(errno),
                          "end other programs, or raise the limits on processes and memory (ulimit -u -v)");
  if (pid == 0) {
    const int report_fd = ::fcntl(report->write_end.get(), F_DUPFD_CLOEXEC, highest + 1);
    if (options.new_process_group) ::setpgid(0, 0);
    if (options.die_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);  // the parent died before prctl took effect
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    // Run the hook first: place_descriptors() may reuse the number of a descriptor that the hook needs.
    if (options.before_exec)
      if (const int code = options.before_exec(); code != 0) report_and_exit(report_fd, code);
    if (const int code = place_descriptors(wanted, highest + 1); code != 0) report_and_exit(report_fd, code);
    ::execvpe(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
    report_and_exit(report_fd, errno);
  }
  if (options.new_process_group)
    ::setpgid(pid, pid);  // also in the parent, so that a signal sent at once reaches the group
  report->write_end.reset();
  Subprocess child;
  child.pid_ = pid;
  child.own_group_ = options.new_process_group;
  int code = 0;
  ssize_t got = 0;
  do got = ::read(report->read_end.get(), &code, sizeof code);
  while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof code)) {
    child.wait();
    return internal_error(fmt::format("cannot start {}", options.command[0]), errno_text(code),
                          code == ENOENT ? "check the name and PATH"
                                         : "check that it is executable and built for this machine");
  }
  return child;
}

std::optional<ExitStatus> Subprocess::reap(int options) {
  if (status_ || pid_ <= 0) return status_;
  int raw = 0;
  rusage usage{};
  pid_t got = 0;
  do got = ::wait4(pid_, &raw, options, &usage);
  while (got < 0 && errno == EINTR);
  if (got == 0) return std::nullopt;
  ExitStatus status;
  if (got < 0) {
    status.exit_code = 127;
  } else if (WIFSIGNALED(raw)) {
    status.signal = WTERMSIG(raw);
  } else {
    status.exit_code = WEXITSTATUS(raw);
  }
  status.peak_rss = kibibytes(usage.ru_maxrss);
  status.cpu_time = {(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000'000LL +
                     (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL};
  status_ = status;
  return status_;
}

std::optional<ExitStatus> Subprocess::poll() { return reap(WNOHANG); }

ExitStatus Subprocess::wait() { return reap(0).value_or(ExitStatus{}); }

std::optional<ExitStatus> Subprocess::wait_for(Nanoseconds timeout) {
  const Nanoseconds deadline = monotonic_now() + timeout;
  for (;;) {
    if (auto status = poll()) return status;
    if (monotonic_now() >= deadline) return std::nullopt;
    ::poll(nullptr, 0, 5);
  }
}

void Subprocess::signal(int number) {
  if (!running()) return;
  if (own_group_) ::kill(-pid_, number);
  ::kill(pid_, number);
}

namespace {

// Whether RLIMIT_MEMLOCK does not apply. With a limit, later allocations would fail, because all memory is
// locked.
bool may_lock_without_bound() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, data) == 0 && (data[0].effective & (1U << CAP_IPC_LOCK)) != 0)
    return true;
  rlimit most{};
  return ::getrlimit(RLIMIT_MEMLOCK, &most) == 0 && most.rlim_cur == RLIM_INFINITY;
}

}  // namespace

void survive_shortage_of_memory() {
  const UniqueFd fd(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (fd) [[maybe_unused]]
    const auto asked = write_all(fd.get(), "-900");
  // MCL_ONFAULT locks only pages that are used, so resident memory does not grow.
  if (may_lock_without_bound()) ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

}  // namespace headroom
