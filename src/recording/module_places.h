// The call stacks of a recording, and the modules that contain their frames.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "types/memory_event.h"

namespace headroom::recording {

// The distinct call stacks of a recording, numbered in order of first use.
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

// A file that was mapped for execution, as readers of recordings see it.
struct Module {
  std::string path, build_id;  // build id in lower-case hex digits; empty if the file has none
  // Where the module was mapped. If another module reused its addresses, this is an artificial place that no
  // process uses. The reader then moves the frames of its stacks there, too (ModulePlaces).
  std::uint64_t load_bias = 0, start = 0, end = 0;
  Nanoseconds loaded;
  std::optional<Nanoseconds> unloaded;
};

// Finds the module of an address when a library was unloaded and another library reused its addresses. The
// time then decides.
//
// The rest of the code identifies a module by address alone. So this class moves a module whose addresses
// were reused to an artificial place, where no process has memory. It also moves the frames of events from
// before the module was unloaded. A file that is loaded again at the same place is the same module. A
// recording without overlapping modules needs none of this and costs nothing.
class ModulePlaces {
 public:
  // Moves the modules whose addresses other modules reused. Call this once.
  void relocate(std::vector<Module>& modules);
  bool empty() const { return contested_.empty(); }

  // The stack, with the frames of moved modules relocated. Fastest if times ascend.
  StackId stack_at(StackId recorded, Nanoseconds time, StackTable& stacks);

 private:
  // A module at a place, until it was unloaded.
  struct Stay {
    std::uint64_t start, end;
    std::uint64_t shift;  // distance to its new place
    Nanoseconds until;
  };
  // Addresses that several modules used; stays_[first, last) are sorted by their end.
  struct Contested {
    std::uint64_t start, end;
    std::size_t first, last;
  };
  static constexpr Nanoseconds kAlways{std::numeric_limits<std::int64_t>::min()},
      kNever{std::numeric_limits<std::int64_t>::max()};
  // The relocated stack, valid for times in [from, until).
  struct Relocated {
    Nanoseconds from = kNever, until = kAlways;
    StackId stack;
  };

  void relocate_overlapping(std::vector<Module*>& overlapping);
  std::uint64_t shift_of(std::uint64_t address, Nanoseconds time, Relocated& relocated) const;
  Relocated relocate_stack(StackId recorded, Nanoseconds time, StackTable& stacks) const;

  std::vector<Stay> stays_;
  std::vector<Contested> contested_;  // by address, disjoint
  std::vector<Relocated> relocated_;  // [StackId]
  // Neither programs nor the kernel have memory here, on any machine with 48 or 57 address bits.
  std::uint64_t next_place_ = std::uint64_t{1} << 62;
};

}  // namespace headroom::recording
