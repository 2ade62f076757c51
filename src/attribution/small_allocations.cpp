#include "attribution/small_allocations.h"

#include <algorithm>
#include <unordered_map>

#include "attribution/live_block.h"
#include "attribution/live_counter.h"

namespace headroom::attribution {

std::vector<SmallAllocations> small_allocations_until(recording::Recording& recording,
                                                      std::span<const Nanoseconds> times) {
  std::vector<SmallAllocations> until(times.size());
  const auto count = [&](Nanoseconds since, std::uint64_t bytes, std::uint64_t blocks) {
    const auto first = std::lower_bound(times.begin(), times.end(), since) - times.begin();
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
  // A damaged file claims any sum.
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

}  // namespace headroom::attribution
