#include "snapshot/torch_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace headroom::snapshot {
namespace {

std::int64_t rounded_up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

}  // namespace

std::int64_t TorchAllocatorRules::divisions_for(std::int64_t size) const {
  // Each row holds from its size on; the first one for all below it, too.
  std::int64_t divisions = 0;
  for (const auto& [mebibytes, steps] : settings_.roundup_power2_divisions)
    if (divisions == 0 || size >> 20 >= mebibytes) divisions = steps;
  return divisions;
}

std::int64_t TorchAllocatorRules::rounded(std::int64_t requested) const {
  if (settings_.has_exact_sizes) return std::max<std::int64_t>(requested, 1);
  if (requested < kTorchBlockUnit) return kTorchBlockUnit;
  const std::int64_t divisions = divisions_for(requested);
  const auto size = static_cast<std::uint64_t>(requested);
  if (divisions <= 1 || requested <= kTorchBlockUnit * divisions)
    return rounded_up(requested, kTorchBlockUnit);
  // The way to the next power of two is divided in steps, a power of two of them.
  const std::uint64_t floor = std::bit_floor(size);
  const std::uint64_t step = floor >> (std::bit_width(static_cast<std::uint64_t>(divisions)) - 1);
  if (step == 0) return static_cast<std::int64_t>(floor << 1);
  return rounded_up(requested, static_cast<std::int64_t>(step));
}

bool TorchAllocatorRules::is_cut(std::int64_t size, std::int64_t rounded, bool is_large,
                                 bool is_expandable) const {
  const std::int64_t rest = size - rounded;
  if (settings_.has_exact_sizes) return rest > 0;
  if (!is_large || is_expandable) return rest >= kTorchBlockUnit;
  const std::int64_t most = settings_.max_split_bytes.value_or(std::numeric_limits<std::int64_t>::max());
  return rounded < most && rest > kTorchSmallRequest;
}

std::int64_t TorchAllocatorRules::segment_size(std::int64_t rounded) {
  constexpr std::int64_t kLargeSegment = 20 << 20, kOwnSegment = 10 << 20;
  if (rounded <= kTorchSmallRequest) return kTorchSmallSegment;
  if (rounded < kOwnSegment) return kLargeSegment;
  return rounded_up(rounded, kTorchSmallSegment);
}

}  // namespace headroom::snapshot
