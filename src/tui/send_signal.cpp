#include "tui/send_signal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "sources/process_memory.h"

namespace headroom::tui {

Status send_signal(const ProcessSample& process, int signal) {
  const auto pid = static_cast<pid_t>(process.pid);
  const std::string what = fmt::format("cannot send a signal to {} {}", process.pid, process.name);
  if (pid <= 0) return failure(what, "invalid process number");
  // Open the descriptor before comparing start times: it refers to one process even if the PID is reused.
  // Kernels before 5.3 have no such descriptor.
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle && errno != ENOSYS) return failure(what, errno_text(errno));
  const auto started = sources::read_process_start(pid);
  if (!started) return failure(what, "it has ended");
  if (started != process.start_ticks) return failure(what, "another process has this number now");
  const auto sent = handle ? ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0)
                           : static_cast<long>(::kill(pid, signal));
  if (sent != 0) return failure(what, errno_text(errno));
  return {};
}

}  // namespace headroom::tui
