// The distinct call stacks of a recording, numbered in order of first use.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "types/memory_event.h"

namespace headroom::recording {

class StackTable {
 public:
  StackTable() { first_.assign(2, 0); }

  // The id of this stack (innermost frame first). An empty stack has StackId{0}.
  StackId intern(std::span<const std::uint64_t> frames) {
    if (frames.empty()) return StackId{};
    const auto [begin, end] = by_hash_.equal_range(hash_of(frames));
    for (auto it = begin; it != end; ++it) {
      const auto known = this->frames(StackId{it->second});
      if (std::equal(known.begin(), known.end(), frames.begin(), frames.end())) return StackId{it->second};
    }
    const auto index = static_cast<std::uint32_t>(first_.size() - 1);
    frames_.insert(frames_.end(), frames.begin(), frames.end());
    first_.push_back(frames_.size());
    by_hash_.emplace(hash_of(frames), index);
    return StackId{index};
  }

  // Valid until the next intern().
  std::span<const std::uint64_t> frames(StackId stack) const {
    return std::span(frames_).subspan(first_[stack.index], first_[stack.index + 1] - first_[stack.index]);
  }
  // Ids run from 0 to size() - 1.
  std::uint32_t size() const { return static_cast<std::uint32_t>(first_.size() - 1); }

 private:
  static std::uint64_t hash_of(std::span<const std::uint64_t> frames) {
    std::uint64_t hash = frames.size();
    for (const std::uint64_t frame : frames) {
      hash = (hash ^ frame) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }

  std::vector<std::uint64_t> frames_;
  std::vector<std::size_t> first_;  // [id] is the index of its first frame
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
};

}  // namespace headroom::recording
