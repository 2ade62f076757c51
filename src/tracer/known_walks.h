// The walks that a thread has made before, to be made again at once.
//
// A program that does the same over and over, as a network's runtime does, comes to the same places with the
// same callers in the same places of its stack. A walk is a function of where it starts and of what it reads
// from the stack: return addresses, and those frame pointers that a frame's place is counted from. So where a
// walk that is kept starts, and all that it read is what it was, it is the same walk. These words lie at
// known places and none waits for another, whereas a walk by rules is a chain of loads, from the stack and
// from a table of rules that is in no cache by then.
//
// Kept is what starts a second time where it started before: of most programs most walks never do. 128 walks
// of at most 40 frames, 170 KiB of a thread when all are there.
#pragma once

#include <cstdint>

#include "recording/format.h"
#include "tracer/call_frame.h"

namespace headroom::tracer {

class KnownWalks {
 public:
  static constexpr std::uint32_t kMostFrames = 40;
  static_assert(kMostFrames < recording::kMaxFrames);  // a walk that was cut there is never kept

  struct Walk {
    // The stack's number in a segment of the thread's; 0: none yet.
    std::uint32_t segment = 0, number = 0;
    // The walk again: return addresses are written to `frames`.
    StackTrace trace(std::uint64_t* frames) const {
      StackTrace trace{frames, count_, hash_};
      for (std::uint32_t i = 0; i < count_; ++i) frames[i] = frames_[i];
      return trace;
    }

   private:
    friend class KnownWalks;
    // A frame that is counted from a frame pointer takes two: its return address and that pointer.
    static constexpr std::uint32_t kMostWords = 2 * kMostFrames;
    std::uint64_t pc_, sp_, fp_;
    std::uint64_t era_;
    std::uint64_t hash_;
    bool depends_on_fp_;
    std::uint32_t count_;                // frames; 0: it was seen to start here, and is not kept
    std::uint32_t word_count_;           // of what was read
    std::uint32_t offsets_[kMostWords];  // from sp, in bytes
    std::uint64_t words_[kMostWords];
    std::uint64_t frames_[kMostFrames];
  };

  // The walk from here, on the thread's own stack; null if it must be made.
  [[gnu::always_inline]] Walk* find(const CallFrame& start) {
    const std::uint64_t epoch = stack_epoch.load(std::memory_order_relaxed);
    if (__builtin_expect(epoch != epoch_, 0)) {
      epoch_ = epoch;
      ++era_;
    }
    Walk& walk = walks_[index_of(start)];
    if (!starts_at(walk, start) || walk.count_ == 0 || (walk.depends_on_fp_ && walk.fp_ != start.fp))
      return nullptr;
    return reads_the_same(walk) ? &walk : nullptr;
  }

  // What was just walked from here, with the history of that walk. Null if it is not kept.
  Walk* keep(const CallFrame& start, const StackBounds& bounds, const WalkHistory& history,
             const StackTrace& trace);

  // The stack is another thread's from now on.
  void forget() { ++era_; }

 private:
  static constexpr std::uint32_t kWalks = 128;
  static std::uint32_t index_of(const CallFrame& start) {
    return static_cast<std::uint32_t>(((start.pc ^ start.sp << 20) * 0x9e3779b97f4a7c15) >> 57);
  }
  bool starts_at(const Walk& walk, const CallFrame& start) const {
    return walk.pc_ == start.pc && walk.sp_ == start.sp && walk.era_ == era_;
  }
  static bool reads_the_same(const Walk& walk);
  static bool fill(Walk& walk, const CallFrame& start, const WalkHistory& history, const StackTrace& trace);

  // A new era begins when a module goes and when the stack is another's.
  std::uint64_t era_ = 0, epoch_ = 0;
  Walk walks_[kWalks];
};

}  // namespace headroom::tracer
