#include "attribution/leak_releases.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "attribution/live_block.h"
#include "attribution/live_map.h"

namespace headroom::attribution {
namespace {

// A place whose releases are looked for; the same stack may be one of several verdicts.
struct Place {
  StackGrowth* growth = nullptr;
  std::int64_t held = 0;
};

void add_places(LeakVerdict& verdict, std::vector<Place>& places) {
  if (verdict.growth == monitoring::Growth::grew_then_released)
    for (StackGrowth& stack : verdict.stacks)
      if (verdict.tells(stack)) places.push_back({&stack});
  for (LeakVerdict& other : verdict.other_cycles) add_places(other, places);
}

void tell_last_release(LeakVerdict& verdict) {
  for (const StackGrowth& stack : verdict.stacks)
    if (verdict.tells(stack) && stack.released_at)
      verdict.released_at = std::max(verdict.released_at.value_or(Nanoseconds{}), *stack.released_at);
  for (LeakVerdict& other : verdict.other_cycles) tell_last_release(other);
}

}  // namespace

void find_release_times(recording::Recording& recording, LeakVerdict& verdict) {
  std::vector<Place> places;
  add_places(verdict, places);
  if (places.empty()) return;
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.growth->stack < b.growth->stack; });
  LiveMap live;
  const auto change = [&](const LiveBlock& block, std::int64_t sign, Nanoseconds time) {
    const StackId stack{block.stack};
    auto place = std::lower_bound(places.begin(), places.end(), stack,
                                  [](const Place& p, StackId s) { return p.growth->stack < s; });
    for (; place != places.end() && place->growth->stack == stack; ++place) {
      add_wrapping(place->held, sign * block.bytes());
      const bool is_released =
          place->held <= std::max(place->growth->end_bytes, place->growth->after_warm_up());
      if (!is_released)
        place->growth->released_at.reset();
      else if (!place->growth->released_at)
        place->growth->released_at = time;
    }
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    LiveBlock block;
    if (event.kind == MemoryEventKind::release) {
      if (live.take(event.address, block)) change(block, -1, event.time);
      return;
    }
    if (!is_allocation(event) || !make_block(event, 0, event.time.count, block)) return;
    LiveBlock replaced;
    if (live.insert(block, replaced)) change(replaced, -1, event.time);
    change(block, 1, event.time);
  });
  tell_last_release(verdict);
}

}  // namespace headroom::attribution
