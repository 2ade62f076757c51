// Says, once for each time, that the wall clock jumped or that the machine slept.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace headroom::watch {

class ClockWatch {
 public:
  // `time` stands still while the machine is suspended, `unix_time` goes on; `suspended` is how long the
  // machine has been suspended in all. What is to be said; empty if nothing.
  std::string look(Nanoseconds time, Nanoseconds unix_time, Nanoseconds suspended);

 private:
  struct Offsets {
    Nanoseconds wall, suspended;
  };
  std::optional<Offsets> last_;
};

// Since the machine started: CLOCK_BOOTTIME, which goes on while it is suspended, less CLOCK_MONOTONIC.
Nanoseconds time_suspended();

}  // namespace headroom::watch
