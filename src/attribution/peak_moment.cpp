#include "attribution/peak_moment.h"

#include <algorithm>

#include "attribution/live_counter.h"
#include "attribution/live_map.h"

namespace headroom::attribution {
namespace {

// The stretch of time in which a number of bytes that changes now and then was at its highest.
class HighestStretch {
 public:
  void change(std::int64_t time, std::int64_t by) {
    if (by == 0) return;
    if (time > since_) close(time);
    add_wrapping(bytes_, by);
  }
  Nanoseconds middle(std::int64_t end) {
    close(std::max(end, since_) + 1);
    return {from_ + (to_ - from_) / 2};
  }

 private:
  void close(std::int64_t time) {
    if (bytes_ > highest_) {
      highest_ = bytes_;
      from_ = since_;
      to_ = time;
    }
    since_ = time;
  }

  std::int64_t bytes_ = 0, since_ = 0;
  std::int64_t highest_ = -1, from_ = 0, to_ = 0;
};

}  // namespace

std::optional<Nanoseconds> peak_moment_of_samples(recording::Recording& recording) {
  if (recording.info().full) return std::nullopt;
  LiveMap live;  // of half A
  HighestStretch highest;
  std::int64_t now = 0;
  bool sampled = false;
  recording.for_each_event([&](const MemoryEvent& event) {
    now = std::clamp(event.time.count, now, kLatestTime);
    LiveBlock block, before;
    if (event.kind == MemoryEventKind::release) {
      if (live.take(event.address, before)) highest.change(now, -before.bytes_in(SampleHalf::a));
      return;
    }
    if (!is_allocation(event) || !make_block(event, 0, now, block)) return;
    sampled = sampled || block.weight != 1;
    const std::int64_t bytes = block.bytes_in(SampleHalf::a);
    const bool replaces = bytes != 0 ? live.insert(block, before) : live.take(event.address, before);
    highest.change(now, bytes - (replaces ? before.bytes_in(SampleHalf::a) : 0));
  });
  if (!sampled) return std::nullopt;
  return highest.middle(now);
}

}  // namespace headroom::attribution
