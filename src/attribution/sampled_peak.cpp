#include "attribution/sampled_peak.h"

#include <algorithm>
#include <unordered_map>

namespace headroom::attribution {
namespace {

// The period in which a changing number of bytes was at its maximum.
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

std::optional<Nanoseconds> moment_of_peak(recording::Recording& recording) {
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

}  // namespace

std::vector<SmallAllocations> small_allocations_until(recording::Recording& recording,
                                                      std::span<const Nanoseconds> times) {
  std::vector<SmallAllocations> until(times.size());
  const auto count = [&](Nanoseconds since, std::uint64_t bytes, std::uint64_t blocks) {
    const auto first = std::ranges::lower_bound(times, since) - times.begin();
    if (static_cast<std::size_t>(first) == until.size()) return;
    SmallAllocations& of_moment = until[static_cast<std::size_t>(first)];
    add_wrapping(of_moment.bytes, static_cast<std::int64_t>(bytes));
    add_wrapping(of_moment.blocks, static_cast<std::int64_t>(blocks));
  };
  std::unordered_map<std::uint64_t, Nanoseconds> counted_until;  // by thread and scope
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::sampled_allocate) return count(event.time, event.size, 1);
    if (event.kind != MemoryEventKind::counters) return;
    Nanoseconds& before = counted_until[std::uint64_t{event.thread.index} << 32 | event.scope.index];
    count(before, event.size, event.count);
    before = event.time;
  });
  for (std::size_t i = 1; i < until.size(); ++i) {
    add_wrapping(until[i].bytes, until[i - 1].bytes);
    add_wrapping(until[i].blocks, until[i - 1].blocks);
  }
  // A damaged file may contain any sum.
  for (SmallAllocations& sum : until) {
    if (sum.bytes < 0) sum.bytes = kNoBound.bytes;
    if (sum.blocks < 0) sum.blocks = kNoBound.blocks;
  }
  return until;
}

SmallAllocations bound_of_samples(recording::Recording& recording) {
  if (recording.info().full) return kNoBound;
  const Nanoseconds end{std::numeric_limits<std::int64_t>::max()};
  return small_allocations_until(recording, {&end, 1}).front();
}

std::optional<SampledPeak> find_sampled_peak(recording::Recording& recording) {
  if (recording.info().full) return std::nullopt;
  const auto moment = moment_of_peak(recording);
  if (!moment) return std::nullopt;
  const Nanoseconds times[] = {*moment, {std::numeric_limits<std::int64_t>::max()}};
  const std::vector<SmallAllocations> until = small_allocations_until(recording, times);
  return SampledPeak{*moment, until[0], until[1]};
}

SmallAllocations sampled_live(const LiveMap& live, SampleHalf half) {
  SmallAllocations sum;
  live.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    add_wrapping(sum.bytes, block.bytes_in(half));
    add_wrapping(sum.blocks, block.blocks_in(half));
  });
  return sum;
}

}  // namespace headroom::attribution
