// Algorithm. Candidates are radix-sorted by score. Then each one is compared with the boxes kept so far,
// at most 300, in arrays that the compiler turns into vector code. The loop stops when 300 boxes are kept.
//
// The result equals that of the usual loop, in which each kept box marks all later boxes that it overlaps:
// a candidate is compared with the same kept boxes. But the cost of the usual loop grows with the square
// of the candidates. IoU is computed on the offset boxes in float, as torchvision does, so that ties are
// resolved in the same way.
#include "inference/tasks/nms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

namespace headroom::inference {
namespace {

constexpr std::size_t kBlock = 16;        // boxes compared at once
constexpr std::uint32_t kDigitBits = 11;  // three passes over a 32-bit key
constexpr std::size_t kDigits = 1U << kDigitBits;

// A sort key that ascends while the score descends, for any finite float.
std::uint32_t descending_key(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}

}  // namespace

void NonMaximumSuppression::reserve(std::size_t candidates) {
  order_.reserve(candidates);
  order_scratch_.reserve(candidates);
  kept_.reserve(kMaximumKept);
}

void NonMaximumSuppression::sort_by_score(std::span<const Candidate> candidates) {
  const std::size_t n = candidates.size();
  order_.resize(n);
  order_scratch_.resize(n);
  std::array<std::array<std::uint32_t, kDigits>, 3> starts{};
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t key = descending_key(candidates[i].score);
    order_[i] = static_cast<std::uint64_t>(key) << 32 | i;
    for (std::uint32_t pass = 0; pass < 3; ++pass) ++starts[pass][key >> pass * kDigitBits & (kDigits - 1)];
  }
  for (std::uint32_t pass = 0; pass < 3; ++pass) {
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts[pass]) sum += std::exchange(start, sum);
    for (const std::uint64_t entry : order_) {
      const auto key = static_cast<std::uint32_t>(entry >> 32);
      order_scratch_[starts[pass][key >> pass * kDigitBits & (kDigits - 1)]++] = entry;
    }
    order_.swap(order_scratch_);
  }
}

bool NonMaximumSuppression::overlaps_kept(float left, float top, float right, float bottom,
                                          float area) const {
  for (std::size_t block = 0; block < kept_.size(); block += kBlock) {
    int hits = 0;
    for (std::size_t k = block; k < block + kBlock; ++k) {
      const float width = std::max(0.0F, std::min(right, boxes_.right[k]) - std::max(left, boxes_.left[k]));
      const float height = std::max(0.0F, std::min(bottom, boxes_.bottom[k]) - std::max(top, boxes_.top[k]));
      const float shared = width * height;
      hits += shared / (area + boxes_.area[k] - shared) > threshold_ ? 1 : 0;
    }
    if (hits != 0) return true;
  }
  return false;
}

void NonMaximumSuppression::keep(float left, float top, float right, float bottom, float area,
                                 std::uint32_t index) {
  const std::size_t k = kept_.size();
  boxes_.left[k] = left;
  boxes_.top[k] = top;
  boxes_.right[k] = right;
  boxes_.bottom[k] = bottom;
  boxes_.area[k] = area;
  kept_.push_back(index);
}

std::span<const std::uint32_t> NonMaximumSuppression::run(std::span<const Candidate> candidates) {
  sort_by_score(candidates);
  kept_.clear();
  boxes_ = {};
  const std::size_t considered = std::min(order_.size(), kMaximumCandidates);
  for (std::size_t i = 0; i < considered && kept_.size() < kMaximumKept; ++i) {
    const auto index = static_cast<std::uint32_t>(order_[i]);
    const Candidate& box = candidates[index];
    const float offset = static_cast<float>(box.class_id) * kClassOffset;
    const float left = box.left + offset;
    const float top = box.top + offset;
    const float right = box.right + offset;
    const float bottom = box.bottom + offset;
    const float area = (right - left) * (bottom - top);
    if (!overlaps_kept(left, top, right, bottom, area)) keep(left, top, right, bottom, area, index);
  }
  return kept_;
}

}  // namespace headroom::inference
