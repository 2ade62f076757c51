// The time of a log's samples, which may be those of several sessions, one behind the other (cat a.jsonl
// b.jsonl). Each session of headroom watch counts from 0: a time that goes back is the begin of another one,
// and what was counted "since the sample before" is not so there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "types/sample.h"

namespace headroom::monitoring {

class SessionClock {
 public:
  struct Step {
    Nanoseconds since;  // the sample before, of the same session; 0 of its first
    bool begins_session = false;
  };

  Step add(const SystemSample& sample) {
    Step step;
    step.begins_session = !last_ || begins_another(sample);
    if (step.begins_session) {
      ++sessions_;
      go_on(elapsed_, gap_before(sample));
    } else {
      step.since = sample.time - *last_;
    }
    go_on(elapsed_, step.since);
    go_on(watched_, step.since);
    last_ = sample.time;
    last_unix_ = sample.unix_time;
    return step;
  }

  std::int64_t sessions() const { return sessions_; }
  // From the first sample to the last. What passed between two sessions is known by the wall clock alone,
  // where the log has it; within one that clock may jump, and its own time counts.
  Nanoseconds elapsed() const { return elapsed_; }
  // The same without what passed between sessions.
  Nanoseconds watched() const { return watched_; }

 private:
  // Negative where the wall clock was set back.
  Nanoseconds gap_before(const SystemSample& sample) const {
    return last_unix_ && sample.unix_time ? *sample.unix_time - *last_unix_ : Nanoseconds{};
  }
  bool begins_another(const SystemSample& sample) const {
    // A log of one sample and another behind it: both at 0. Two samples of one moment are of one session.
    constexpr Nanoseconds kNoMoment{1'000'000'000};
    return sample.time < *last_ || (sample.time == *last_ && gap_before(sample) >= kNoMoment);
  }
  // A log may say anything, and sums must fit.
  static void go_on(Nanoseconds& clock, Nanoseconds by) {
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    clock.count += std::clamp<std::int64_t>(by.count, 0, kMost - clock.count);
  }

  std::optional<Nanoseconds> last_, last_unix_;
  std::int64_t sessions_ = 0;
  Nanoseconds elapsed_, watched_;
};

}  // namespace headroom::monitoring
