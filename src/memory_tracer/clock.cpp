#include "memory_tracer/clock.h"

#include "preload/clock.h"

namespace headroom::memory_tracer {
namespace {

struct Point {
  std::uint64_t ticks, ns;
};
Point point_now() { return {preload::ticks_about_now(), preload::monotonic_ns()}; }

Point start{};
double ns_a_tick = 0;  // 0: use the kernel's clock

}  // namespace

void calibrate_clock() {
  static const bool is_calibrated = [] {
    preload::choose_clock();
    if (!preload::process_clock.counter) return true;
    const Point first = point_now();
    constexpr std::uint64_t kLeast = 10'000'000;
    Point last = point_now();
    while (last.ns - first.ns < kLeast) last = point_now();
    start = last;
    ns_a_tick = static_cast<double>(last.ns - first.ns) / static_cast<double>(last.ticks - first.ticks);
    return true;
  }();
  (void)is_calibrated;
}

std::int64_t now_ns() {
  if (ns_a_tick == 0) return static_cast<std::int64_t>(preload::monotonic_ns());
  const auto ticks = static_cast<std::int64_t>(preload::ticks_about_now() - start.ticks);
  return static_cast<std::int64_t>(start.ns) +
         static_cast<std::int64_t>(static_cast<double>(ticks) * ns_a_tick);
}

}  // namespace headroom::memory_tracer
