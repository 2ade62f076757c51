#include "trace/traced_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "base/text.h"

namespace headroom::trace {
namespace {

constexpr std::array kForwarded{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

std::atomic<pid_t> g_child{0};
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal handler reads it");

// The terminal sends its signals (SI_KERNEL) to the whole group, so the command has already received those.
void forward(int number, siginfo_t* info, void* /*context*/) {
  const int error_before = errno;
  const pid_t child = g_child.load();
  if (child > 0 && info->si_code != SI_KERNEL) ::kill(child, number);
  errno = error_before;
}

// Stays installed for the rest of this process's life: signals after the command's end have no effect.
// `timeout` and other tools signal this process and then its group; the second signal must not end it while
// it finishes the recordings. Ignored signals stay ignored, also in the command (nohup).
void forward_signals() {
  for (const int number : kForwarded) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction ours {};
    ours.sa_sigaction = forward;
    ours.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    ::sigaction(number, &ours, nullptr);
  }
}

// Blocks the forwarded signals until the child's PID is known.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : kForwarded) sigaddset(&held, number);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

// How often the kernel's out-of-memory killer struck on this machine, including limits of control groups.
std::int64_t out_of_memory_kills() {
  const auto text = read_small_file("/proc/vmstat");
  if (!text) return 0;
  for (const std::string_view line : split(*text, '\n'))
    if (line.starts_with("oom_kill ")) return parse_number<std::int64_t>(line.substr(9)).value_or(0);
  return 0;
}

int descriptor_or_none(int fd) { return ::fcntl(fd, F_GETFD) >= 0 ? fd : -1; }

void wait_until_over(pid_t child) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

}  // namespace

Result<CommandEnd> run_command(const std::vector<std::string>& command, const Environment& environment,
                               const std::function<int()>& before_exec) {
  SpawnOptions options;
  options.command = command;
  options.environment = environment;
  options.stdin_fd = descriptor_or_none(STDIN_FILENO);
  options.stdout_fd = descriptor_or_none(STDOUT_FILENO);
  options.stderr_fd = descriptor_or_none(STDERR_FILENO);
  options.before_exec = before_exec;
  options.new_process_group = false;
  options.die_with_parent = false;

  const std::int64_t kills_before = out_of_memory_kills();
  const Nanoseconds start = monotonic_now();
  forward_signals();
  Subprocess child;
  {
    const SignalsHeld held;
    auto spawned = Subprocess::spawn(options);
    if (!spawned) {
      spawned.error().kind = ErrorKind::usage;
      return forward_error(spawned);
    }
    child = std::move(*spawned);
    g_child = child.pid();
  }
  // The child's PID is not reused until the child is reaped, so a late signal cannot hit another process.
  wait_until_over(child.pid());
  g_child = 0;
  CommandEnd end;
  end.status = child.wait();
  end.duration = monotonic_now() - start;
  end.out_of_memory = end.status.signal == SIGKILL && out_of_memory_kills() > kills_before;
  return end;
}

}  // namespace headroom::trace
