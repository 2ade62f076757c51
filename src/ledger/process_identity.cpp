#include "ledger/process_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace headroom::ledger {

namespace {

struct ProcessStat {
  std::uint64_t start_ticks = 0;  // 0: unknown
  bool is_exiting = false;
  bool has_ended = false;  // a zombie: its memory is freed, and it waits for its parent
};

// Reads fields 3 (state), 9 (flags), 20 (threads) and 22 (start time) of /proc/PID/stat. Parsing starts after
// the last ')', because the program's name (field 2) may contain any character.
ProcessStat stat_of(std::uint32_t pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return {};
  text[length] = 0;
  const char* at = std::strrchr(text, ')');
  char state = 0;
  std::uint64_t flags = 0, threads = 0, ticks = 0;
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return {};
    if (field + 1 == 3) state = at[1];
    if (field + 1 != 9 && field + 1 != 20 && field + 1 != 22) continue;
    std::uint64_t number = 0;
    for (const char* digit = at + 1; *digit >= '0' && *digit <= '9'; ++digit)
      number = number * 10 + static_cast<std::uint64_t>(*digit - '0');
    (field + 1 == 9 ? flags : field + 1 == 20 ? threads : ticks) = number;
  }
  constexpr std::uint64_t kExiting = 4;  // the kernel's PF_EXITING
  // A main thread that ended before the others is also shown as a zombie.
  const bool has_ended = state == 'X' || (state == 'Z' && threads <= 1);
  return {ticks, !has_ended && (flags & kExiting) != 0, has_ended};
}

}  // namespace

std::uint64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

ProcessIdentity this_process() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return {pid, stat_of(pid).start_ticks, own_pid_namespace()};
}

bool is_exiting(const ProcessIdentity& process) {
  if (process.pid == 0 || process.pid_namespace != own_pid_namespace()) return false;
  const ProcessStat now = stat_of(process.pid);
  return now.is_exiting && now.start_ticks == process.start_ticks;
}

bool may_be_alive(const ProcessIdentity& process) {
  if (process.pid == 0) return false;
  if (process.pid_namespace != own_pid_namespace()) return true;
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const ProcessStat now = stat_of(process.pid);
  if (now.has_ended) return false;
  return now.start_ticks == 0 || process.start_ticks == 0 || now.start_ticks == process.start_ticks;
}

}  // namespace headroom::ledger
