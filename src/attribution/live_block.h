// One live allocation, as the analysis keeps it: 40 bytes, since there is one for each that the traced
// program holds at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "attribution/layer_tree.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// No malloc of a working program gives more (4 TiB); a damaged file says it does, and its sums would
// overflow.
inline constexpr std::uint64_t kLargestBlock = std::uint64_t{1} << 42;
// Later times are a damaged file's.
inline constexpr std::int64_t kLatestTime = std::int64_t{1} << 60;
// A damaged file names any thread; those past this are one.
inline constexpr std::uint32_t kMostThreads = 1 << 20;

struct LiveBlock {
  std::uint64_t address = 0;  // 0: the slot is free
  std::uint64_t size = 0;     // as was asked for
  std::int64_t time_ns = 0;
  std::uint32_t stack = 0, layer = 0;
  std::uint32_t thread : 30 = 0;
  std::uint32_t half_bits : 2 = 0;
  float weight = 1;  // of a sample: it stands for so many allocations

  // The bytes that it stands for; the same number whenever it is asked, so that sums come back to zero.
  std::int64_t bytes() const {
    if (weight == 1) return static_cast<std::int64_t>(size);
    return rounded(static_cast<double>(size) * static_cast<double>(weight));
  }
  std::int64_t blocks() const { return weight == 1 ? 1 : rounded(static_cast<double>(weight)); }

  // The same among the samples of one half; 0 if it is not in it.
  std::int64_t bytes_in(SampleHalf half) const {
    if (weight == 1 || half == SampleHalf::both) return bytes();
    return is_in(half) ? bytes_in_its_half() : 0;
  }
  std::int64_t blocks_in(SampleHalf half) const {
    if (weight == 1 || half == SampleHalf::both) return blocks();
    return is_in(half) ? blocks_in_its_half() : 0;
  }
  // Of a sample, in each half that it is in.
  std::int64_t bytes_in_its_half() const { return rounded(static_cast<double>(size) * half_weight()); }
  std::int64_t blocks_in_its_half() const { return rounded(half_weight()); }
  // With p = 1/weight a half has it with probability 1 − √(1 − p) (recording/sample_half.h).
  double half_weight() const {
    const auto whole = static_cast<double>(weight);
    return whole * (1 + std::sqrt(1 - 1 / whole));
  }
  bool is_in(SampleHalf half) const {
    return half_bits == static_cast<std::uint32_t>(SampleHalf::both) ||
           half_bits == static_cast<std::uint32_t>(half);
  }

 private:
  // Of what is not negative. std::llround is a call.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  static std::int64_t rounded(double value) { return static_cast<std::int64_t>(value + 0.5); }
};
static_assert(sizeof(LiveBlock) == 40);

// What one sample adds to the variance of a sum in which it stands for `bytes`. Of n samples drawn with
// probability p each, the sum of size/p has the variance Σ (1 − p)·(size/p)² (Horvitz and Thompson); p is
// 1/weight.
inline double sample_variance(double weight, std::int64_t bytes) {
  const auto of_bytes = static_cast<double>(bytes);
  return (1 - 1 / weight) * of_bytes * of_bytes;
}

// Live bytes by all samples, and by each half of them. Where nothing was sampled, all three are the same.
struct LiveBytes {
  std::int64_t all = 0, a = 0, b = 0;
  std::int64_t b_cut = 0;  // what b was brought down by, as more cannot be (small_allocations.h)

  LiveBytes operator-() const { return {-all, -a, -b, 0}; }
};

// What a block stands for, with `more` bytes added to each of the allocations (an allocator's headers).
struct LiveShare {
  LiveBytes bytes, with_more;
  std::int64_t blocks = 0;

  static LiveShare of_exact(const LiveBlock& block, std::int64_t more) {
    const auto size = static_cast<std::int64_t>(block.size);
    return {{size, size, size, 0}, {size + more, size + more, size + more, 0}, 1};
  }
  static LiveShare of_sample(const LiveBlock& block, std::int64_t more) {
    LiveShare share;
    const std::int64_t bytes = block.bytes_in_its_half(), blocks = block.blocks_in_its_half();
    const std::int64_t in_a = block.is_in(SampleHalf::a) ? 1 : 0, in_b = block.is_in(SampleHalf::b) ? 1 : 0;
    share.blocks = block.blocks();
    share.bytes = {block.bytes(), in_a * bytes, in_b * bytes, 0};
    share.with_more = {share.bytes.all + more * share.blocks, in_a * (bytes + more * blocks),
                       in_b * (bytes + more * blocks), 0};
    return share;
  }
};

inline bool is_allocation(const MemoryEvent& event) {
  return event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate;
}

// The block of an allocation; false if no allocation can be what the event says.
inline bool make_block(const MemoryEvent& event, LayerIndex layer, std::int64_t time, LiveBlock& block) {
  constexpr auto kLargest = static_cast<double>(kLargestBlock);
  if (event.address == 0 || event.size > kLargestBlock || !(event.weight <= kLargest) ||
      static_cast<double>(event.size) * event.weight > kLargest)
    return false;
  block = {event.address,
           event.size,
           time,
           event.stack.index,
           layer,
           std::min(event.thread.index, kMostThreads) & 0x3fffffff,
           static_cast<std::uint32_t>(event.half) & 3,
           static_cast<float>(event.weight)};
  return true;
}

}  // namespace headroom::attribution
