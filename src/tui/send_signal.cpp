#include "tui/send_signal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/text.h"

namespace headroom::tui {

Status send_signal(const ProcessSample& process, int signal) {
  const auto pid = static_cast<pid_t>(process.pid);
  const std::string what = fmt::format("{} {} was sent nothing", process.pid, process.name);
  if (pid <= 0) return failure(what, "its number is no process");
  // The descriptor names this process alone, before its name is looked at. Kernels before 5.3 have none.
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle && errno != ENOSYS) return failure(what, errno_text(errno));
  const auto name = read_small_file(fmt::format("/proc/{}/comm", pid));
  if (!name) return failure(what, "it has ended");
  if (trim(*name) != process.name) return failure(what, "another process has its number now");
  const auto sent = handle ? ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0)
                           : static_cast<long>(::kill(pid, signal));
  if (sent != 0) return failure(what, errno_text(errno));
  return {};
}

}  // namespace headroom::tui
