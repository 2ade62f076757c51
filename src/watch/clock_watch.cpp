#include "watch/clock_watch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

namespace headroom::watch {
namespace {

constexpr Nanoseconds kNoticed{1'000'000'000};  // less is the pace of NTP

Nanoseconds now_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return {std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

}  // namespace

std::string ClockWatch::look(Nanoseconds time, Nanoseconds unix_time, Nanoseconds suspended) {
  const Offsets now{unix_time - time, suspended};
  const Offsets before = last_.value_or(now);
  last_ = now;
  const Nanoseconds slept = now.suspended - before.suspended;
  const Nanoseconds jumped = now.wall - before.wall - slept;
  std::string said;
  if (slept > kNoticed)
    said =
        fmt::format("the machine was suspended for {:.1f} s, which time_ns does not count", slept.seconds());
  if (std::abs(jumped.count) > kNoticed.count) {
    if (!said.empty()) said += "; ";
    said += fmt::format("the wall clock jumped by {:+.1f} s; time_ns goes on steadily", jumped.seconds());
  }
  return said;
}

Nanoseconds time_suspended() { return now_of(CLOCK_BOOTTIME) - now_of(CLOCK_MONOTONIC); }

}  // namespace headroom::watch
