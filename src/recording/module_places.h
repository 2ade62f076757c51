// Finds the module of an address when a library was unloaded and another library reused its addresses. The
// time then decides.
//
// The rest of the code identifies a module by address alone. So ModulePlaces moves a module whose addresses
// were reused to an artificial place, where no process has memory. It also moves the frames of events from
// before the module was unloaded. A file that is loaded again at the same place is the same module. A
// recording without overlapping modules needs none of this and costs nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "recording/module.h"
#include "recording/stack_table.h"
#include "types/memory_event.h"

namespace headroom::recording {

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
  const Contested* contested_at(std::uint64_t address) const;
  std::uint64_t shift_of(std::uint64_t address, Nanoseconds time, Relocated& relocated) const;
  Relocated relocate_stack(StackId recorded, Nanoseconds time, StackTable& stacks) const;

  std::vector<Stay> stays_;
  std::vector<Contested> contested_;  // by address, disjoint
  std::vector<Relocated> relocated_;  // [StackId]
  // Neither programs nor the kernel have memory here, on any machine with 48 or 57 address bits.
  std::uint64_t next_place_ = std::uint64_t{1} << 62;
};

}  // namespace headroom::recording
