// Which addresses can be of one heap, by where glibc's malloc has its memory on 64-bit Linux.
//
// The main heap lies behind the program, at its break, and goes on without a gap however large a hole in it
// is: nothing else is mapped there. Each other arena is made of stretches of 64 MiB of addresses that begin
// at multiples of 64 MiB; what of such a stretch was never used is no memory, so no hole reaches into the
// next. Other allocators' heaps are cut there, too.
#pragma once

#include <cstdint>

#include "recording/recording.h"

namespace headroom::attribution {

class HeapLayout {
 public:
  static constexpr std::uint64_t kStretch = 64 << 20;  // HEAP_MAX_SIZE

  HeapLayout() = default;  // where the break lies is not known
  // What lies in [begin, end) is the break's, but for a stretch that it only begins in.
  HeapLayout(std::uint64_t begin, std::uint64_t end)
      : first_(begin / kStretch), end_(end / kStretch > first_ ? end / kStretch : first_) {}

  bool is_stretch_of_break(std::uint64_t stretch) const { return stretch >= first_ && stretch < end_; }
  bool is_of_break(std::uint64_t address) const { return is_stretch_of_break(address / kStretch); }
  bool is_one_heap(std::uint64_t address, std::uint64_t other) const {
    return address / kStretch == other / kStretch || (is_of_break(address) && is_of_break(other));
  }

 private:
  std::uint64_t first_ = 0, end_ = 0;  // stretches
};

HeapLayout heap_layout_of(const recording::RecordingInfo& info);

}  // namespace headroom::attribution
