// Which layer a forward operator ran in, by the number that autograd gave it.
//
// A thread's operators that need gradients have numbers that rise. So a layer is a range of them: where it
// was entered, and where another was. In inference numbers stay as they are, and so does the list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom::memory_tracer {

class ForwardLayers {
 public:
  // From this number on the thread is in `layer`.
  void note(std::uint64_t thread, std::uint64_t sequence, std::uint32_t layer) {
    if (last_ == nullptr || thread != last_thread_) {
      last_ = &threads_[thread];  // stays where it is
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
  // A pass of a model with a thousand modules has some two thousand; passes before the last thirty are over.
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
