// Maps forward operators to layers by their autograd sequence number.
//
// Within a thread, operators that need gradients have increasing numbers. So a layer corresponds to a range
// of numbers, from its entry to the entry of the next layer. In inference the numbers do not change, so the
// list does not grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom::memory_tracer {

class ForwardLayers {
 public:
  // From this number on, the thread is in `layer`.
  void note(std::uint64_t thread, std::uint64_t sequence, std::uint32_t layer) {
    if (last_ == nullptr || thread != last_thread_) {
      last_ = &threads_[thread];  // the pointer stays valid
      last_thread_ = thread;
    }
    std::vector<Range>& ranges = *last_;
    if (!ranges.empty() && ranges.back().from >= sequence) {
      ranges.back() = {sequence, layer};
      return;
    }
    if (!ranges.empty() && ranges.back().layer == layer) return;
    if (ranges.size() == kMostRanges)
      ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(kMostRanges / 2));
    ranges.push_back({sequence, layer});
  }

  std::optional<std::uint32_t> find(std::uint64_t thread, std::uint64_t sequence) const {
    const auto ranges = threads_.find(thread);
    if (ranges == threads_.end()) return std::nullopt;
    const auto after =
        std::upper_bound(ranges->second.begin(), ranges->second.end(), sequence,
                         [](std::uint64_t number, const Range& range) { return number < range.from; });
    if (after == ranges->second.begin()) return std::nullopt;
    return std::prev(after)->layer;
  }

 private:
  // A pass of a model with a thousand modules adds about two thousand ranges, so this keeps about the last
  // thirty passes.
  static constexpr std::size_t kMostRanges = 1 << 16;
  struct Range {
    std::uint64_t from;
    std::uint32_t layer;
  };
  std::unordered_map<std::uint64_t, std::vector<Range>> threads_;
  std::vector<Range>* last_ = nullptr;
  std::uint64_t last_thread_ = 0;
};

}  // namespace headroom::memory_tracer
