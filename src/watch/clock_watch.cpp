#include "watch/clock_watch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

namespace headroom::watch {
namespace {

constexpr Nanoseconds kMinReported{1'000'000'000};  // smaller changes are NTP corrections

Nanoseconds now_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return {std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

}  // namespace

std::string ClockWatch::check(Nanoseconds time, Nanoseconds unix_time, Nanoseconds suspended) {
  const Offsets now{unix_time - time, suspended};
  const Offsets before = last_.value_or(now);
  last_ = now;
  const Nanoseconds slept = now.suspended - before.suspended;
  const Nanoseconds jumped = now.wall - before.wall - slept;
  std::string message;
  if (slept > kMinReported)
    message =
        fmt::format("the machine was suspended for {:.1f} s; time_ns excludes this time", slept.seconds());
  if (std::abs(jumped.count) > kMinReported.count) {
    if (!message.empty()) message += "; ";
    message += fmt::format("the wall clock jumped by {:+.1f} s; time_ns is not affected", jumped.seconds());
  }
  return message;
}

Nanoseconds time_suspended() { return now_of(CLOCK_BOOTTIME) - now_of(CLOCK_MONOTONIC); }

}  // namespace headroom::watch
