// A descriptor out of the way of programs that count on the small numbers, for what lives in their processes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace headroom::ledger {

// Closed by exec. `fd` itself, where there is none so high.
inline int move_to_high_number(int fd) {
  constexpr int kOutOfTheWay = 500;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

}  // namespace headroom::ledger
