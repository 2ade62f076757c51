#include "bench/conductor/supervise.h"

#include <poll.h>

#include <algorithm>

namespace headroom::bench {
namespace {

// Interval between two memory samples: fine enough for a curve. 20 reads of /proc a second cost 0.1 % of a
// core.
constexpr Nanoseconds kSampleInterval{50'000'000};
// To compute PSS, the kernel walks the worker's page tables: 1 ms for 30 MiB, 4 ms for 300 MiB. This interval
// shows the peak of a phase; the pause after each reading limits the cost to 1 % of the time.
constexpr Nanoseconds kShareInterval{50'000'000};
constexpr std::int64_t kSharePauseFactor = 100;

void sample_shares(const std::vector<WorkerRun*>& runs, const ShareWatch& shares) {
  for (WorkerRun* run : runs) run->sample_share();
  if (shares.each) shares.each(runs);
}

}  // namespace

bool supervise(const std::vector<WorkerRun*>& runs, Interrupt& interrupt, Nanoseconds interval,
               const Tick& tick, const ShareWatch& shares) {
  Nanoseconds next_sample = monotonic_now();
  Nanoseconds next_tick = next_sample, next_share = next_sample;
  for (;;) {
    std::vector<pollfd> polled{{interrupt.fd(), POLLIN, 0}};
    for (const WorkerRun* run : runs)
      for (const int fd : run->descriptors())
        if (fd >= 0) polled.push_back({fd, POLLIN, 0});
    const Nanoseconds now = monotonic_now();
    Nanoseconds next = std::min(next_sample, next_tick);
    if (shares.on_a_clock) next = std::min(next, next_share);
    const auto wait_ms = std::max<std::int64_t>(0, (next - now).count / 1'000'000);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(wait_ms, 1000)));
    if (interrupt.requested()) {
      for (WorkerRun* run : runs) run->stop(ModelStatus::failed, WorkerRun::kInterrupted);
      for (WorkerRun* run : runs)
        while (!run->finished()) ::poll(nullptr, 0, 5);
      return false;
    }
    bool all_finished = true;
    bool all_wait = true;
    bool all_measured = true;
    bool share_is_due = shares.on_a_clock && monotonic_now() >= next_share;
    for (WorkerRun* run : runs) {
      run->read_available();
      if (run->finished()) continue;
      // So that a run that ends before the next tick has its PSS measured, too.
      share_is_due = share_is_due || run->share_is_due();
      all_finished = false;
      all_wait = all_wait && run->waiting_for_gate();
      all_measured = all_measured && run->has_measured();
      if (run->hung()) run->stop(ModelStatus::timeout, run->describe_hang());
    }
    if (all_finished) return true;
    if (share_is_due) {
      const Nanoseconds started = monotonic_now();
      sample_shares(runs, shares);
      const Nanoseconds ended = monotonic_now();
      next_share = ended + std::max(kShareInterval, Nanoseconds{kSharePauseFactor * (ended - started).count});
    }
    if (all_wait)
      for (WorkerRun* run : runs)
        if (run->waiting_for_gate()) run->open_gate();
    if (all_measured)
      for (WorkerRun* run : runs) run->release();
    if (monotonic_now() >= next_sample) {
      for (WorkerRun* run : runs) run->sample();
      next_sample = monotonic_now() + kSampleInterval;
    }
    if (monotonic_now() >= next_tick) {
      sample_shares(runs, shares);
      if (tick) tick(runs);
      next_tick = monotonic_now() + interval;
    }
  }
}

}  // namespace headroom::bench
