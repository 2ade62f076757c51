// Which module an address belongs to where a library was unloaded and another one took its addresses: then
// the time decides.
//
// So that everything else may go on with addresses alone, a module that left its addresses to another one is
// moved to a place where no process has memory, and so are the frames of what was recorded before it was
// unloaded. A file that is loaded at the same place again is the same module. A recording in which no two
// modules overlap has no such places and pays nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "model/memory_event.h"
#include "recording/module.h"
#include "recording/stack_table.h"

namespace headroom::recording {

class ModulePlaces {
 public:
  // Moves the modules that left their addresses to others.
  void settle(std::vector<Module>& modules);
  bool empty() const { return contested_.empty(); }

  // The stack with the frames of modules that were moved where those lie now. Quickest for times that ascend.
  StackId stack_at(StackId recorded, Nanoseconds time, StackTable& stacks);

 private:
  // A module at a place, until it was unloaded.
  struct Stay {
    std::uint64_t start, end;
    std::uint64_t shift;  // to where it was moved
    Nanoseconds until;
  };
  // Addresses that several modules had; stays_[first, last) are by their ends.
  struct Contested {
    std::uint64_t start, end;
    std::size_t first, last;
  };
  static constexpr Nanoseconds kAlways{std::numeric_limits<std::int64_t>::min()},
      kNever{std::numeric_limits<std::int64_t>::max()};
  // What became of a stack, for times in [from, until).
  struct Settled {
    Nanoseconds from = kNever, until = kAlways;
    StackId stack;
  };

  void settle_one(std::vector<Module*>& overlapping);
  const Contested* contested_at(std::uint64_t address) const;
  std::uint64_t shift_of(std::uint64_t address, Nanoseconds time, Settled& settled) const;
  Settled settle_stack(StackId recorded, Nanoseconds time, StackTable& stacks) const;

  std::vector<Stay> stays_;
  std::vector<Contested> contested_;  // by address, disjoint
  std::vector<Settled> settled_;      // [StackId]
  // Neither a program nor the kernel has memory here, on any machine with 48 or 57 bits of address.
  std::uint64_t next_place_ = std::uint64_t{1} << 62;
};

}  // namespace headroom::recording
