// Random events of several threads in nested layers: blocks whose addresses are used again and again,
// releases of unknown blocks, ties in time, and if wanted mappings and gaps.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/recording_builder.h"

namespace headroom::attribution {

// Several segments for each thread.
inline const test::RecordingOptions kOfRandomEvents{.segment_bytes = 8192, .segments_limit = 4096};

inline void add_random_events(test::RecordingBuilder& builder, unsigned seed, bool with_mappings_and_gaps) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  std::vector<std::uint32_t> scopes{0};
  // Some layers have several scopes.
  for (int i = 0; i < 12; ++i)
    scopes.push_back(
        builder.scope("s" + std::to_string(below(8)), below(2) == 0 ? 0 : scopes[below(scopes.size())]));
  const std::uint64_t threads = 1 + below(5), slots = 20 + below(400);
  std::uint64_t time = 0;
  for (int i = 0; i < 30'000; ++i) {
    const auto thread = static_cast<std::uint32_t>(below(threads));
    time += below(3) == 0 ? 0 : below(50);
    const std::uint64_t address = 0x10000 + 16 * below(slots), mapping = 0x100000 + 4096 * below(20);
    test::RecordingBuilder::Frames stack(below(4));
    for (std::uint64_t& frame : stack) frame = 0x400000 + 16 * below(3);
    switch (below(with_mappings_and_gaps ? 20 : 17)) {
      case 0:
        builder.enter_scope(thread, time, scopes[below(scopes.size())]);
        break;
      case 1:
        if (below(40) == 0) builder.end_segment(thread);
        break;
      case 17:
        builder.map(thread, time, mapping, 4096 * (1 + below(4)), stack);
        break;
      case 18:
        builder.unmap(thread, time, mapping, 4096 * (1 + below(4)));
        break;
      case 19:
        if (below(100) == 0) builder.gap(thread, time, 7);
        break;
      default:
        if (below(2) == 0)
          builder.allocate(thread, time, address, below(below(2) == 0 ? 100 : 100'000), stack);
        else
          builder.release(thread, time, address);
    }
  }
}

}  // namespace headroom::attribution
