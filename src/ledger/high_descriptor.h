// Moves a file descriptor to a high number. This code runs inside other programs, and some of them rely on
// low numbers being free.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace headroom::ledger {

// Returns the new descriptor, which exec closes, or `fd` if the process may not have so high a number.
inline int move_to_high_number(int fd) {
  constexpr int kFirstHighNumber = 500;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstHighNumber);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

}  // namespace headroom::ledger
