// The call stacks of a recording, and the modules that contain their frames.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "types/memory_event.h"

namespace headroom::recording {

// The hash of a call stack, from the outermost frame inwards. A stack that shares its outermost frames with
// another one continues from the hash of these.
inline std::uint64_t hash_with_callee(std::uint64_t hash, std::uint64_t frame) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{hash ^ 0x9e3779b97f4a7c15} * (frame ^ 0xe7037ed1a0b428db);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The distinct call stacks of a recording, numbered in order of first use.
//
// Each segment of a recording defines its stacks anew, so most calls of intern() find a known stack. They
// compare hashes of 64 bits and the number of frames, not the frames: with a million stacks, the chance that
// two have the same hash is one in 30 million.
class StackTable {
 public:
  StackTable() { first_.assign(2, 0); }

  // The id of this stack. An empty stack has StackId{0}. `hash`: by hash_with_callee(), beginning with 0.
  StackId intern(std::span<const std::uint64_t> outermost_first, std::uint64_t hash) {
    if (outermost_first.empty()) return StackId{};
    std::size_t at = home_of(hash);
    for (; slots_[at].id != 0; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash && slots_[at].frames == outermost_first.size())
        return StackId{slots_[at].id};
    const std::uint32_t id = size();
    slots_[at] = {hash, id, static_cast<std::uint32_t>(outermost_first.size())};
    frames_.insert(frames_.end(), outermost_first.rbegin(), outermost_first.rend());
    first_.push_back(frames_.size());
    if (std::size_t{id} * 2 > slots_.size()) grow();
    return StackId{id};
  }
  StackId intern(std::span<const std::uint64_t> innermost_first) {
    const std::vector<std::uint64_t> frames(innermost_first.rbegin(), innermost_first.rend());
    std::uint64_t hash = 0;
    for (const std::uint64_t frame : frames) hash = hash_with_callee(hash, frame);
    return intern(frames, hash);
  }

  // Innermost frame first. Valid until the next intern().
  std::span<const std::uint64_t> frames(StackId stack) const {
    return std::span(frames_).subspan(first_[stack.index], first_[stack.index + 1] - first_[stack.index]);
  }
  // Ids run from 0 to size() - 1.
  std::uint32_t size() const { return static_cast<std::uint32_t>(first_.size() - 1); }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t id = 0;  // 0: the slot is free
    std::uint32_t frames = 0;
  };
  static constexpr std::size_t kFirstSlots = 1 << 10;

  std::size_t home_of(std::uint64_t hash) const { return hash & (slots_.size() - 1); }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id == 0) continue;
      std::size_t at = home_of(slot.hash);
      while (slots_[at].id != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<std::uint64_t> frames_;
  std::vector<std::size_t> first_;                            // [id] is the index of its first frame
  std::vector<Slot> slots_ = std::vector<Slot>(kFirstSlots);  // as many as a power of two
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
