// Live bytes and blocks of one stack, layer, size class or thread, and what they were at the peak.
//
// A new peak can come with every allocation, and copying every stack's figure each time would make the
// analysis quadratic. So marking a moment only counts up one number, and a counter saves what it was when it
// is next changed: at the end, those that were saved since the last mark have it, and the others have not
// changed since. Exact, and one comparison a change.
#pragma once

#include <cstdint>

namespace headroom::attribution {

// The number of the moment that was marked last.
using Mark = std::uint64_t;

// Sums of what a damaged file claims may overflow; they wrap, as unsigned numbers do.
inline void add_wrapping(std::int64_t& sum, std::int64_t by) {
  sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(by));
}

struct LiveCounter {
  std::int64_t bytes = 0, blocks = 0;
  std::int64_t saved_bytes = 0, saved_blocks = 0;
  Mark mark = 0;

  void change(std::int64_t by_bytes, std::int64_t by_blocks, Mark current) {
    if (mark != current) {
      saved_bytes = bytes;
      saved_blocks = blocks;
      mark = current;
    }
    add_wrapping(bytes, by_bytes);
    add_wrapping(blocks, by_blocks);
  }
  // The moment of `current` is now, and what was live is told by others' numbers: zero, to which they are
  // added.
  void begin_telling(Mark current) {
    saved_bytes = saved_blocks = 0;
    mark = current;
  }
  void tell(std::int64_t of_bytes, std::int64_t of_blocks) {
    add_wrapping(saved_bytes, of_bytes);
    add_wrapping(saved_blocks, of_blocks);
  }
  std::int64_t bytes_at(Mark current) const { return mark == current ? saved_bytes : bytes; }
  std::int64_t blocks_at(Mark current) const { return mark == current ? saved_blocks : blocks; }
};

}  // namespace headroom::attribution
