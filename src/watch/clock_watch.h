// Detects that the wall clock jumped or that the machine was suspended, by more than one second. Reports each
// event once.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace headroom::watch {

class ClockWatch {
 public:
  // Call it with each sample. Returns a message about the time since the last call, or an empty string.
  // `time` stops while the machine is suspended; `unix_time` continues. `suspended` is the total time of
  // suspension so far.
  std::string check(Nanoseconds time, Nanoseconds unix_time, Nanoseconds suspended);

 private:
  struct Offsets {
    Nanoseconds wall, suspended;
  };
  std::optional<Offsets> last_;
};

// Total suspended time since boot: CLOCK_BOOTTIME, which continues during suspension, minus
// CLOCK_MONOTONIC.
Nanoseconds time_suspended();

}  // namespace headroom::watch
