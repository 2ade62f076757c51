// A cache of a thread's stack walks.
//
// A program that repeats its work, as a neural network's runtime does, reaches the same code with the same
// callers at the same stack addresses. A walk depends only on its start and on the words that it reads from
// the stack. These are return addresses, and those frame pointers that locate a frame. So if a kept walk has
// the same start, and all words that it read are unchanged, its result is the same. These words are at known
// addresses and can be loaded independently. A walk by rules, in contrast, is a chain of dependent loads from
// the stack and from an uncached table of rules.
//
// A walk is kept only when a second walk begins at the same start, because in most programs most starts never
// recur. The cache has 128 walks of at most 40 frames. It takes 170 KiB per thread when all are in use.
#pragma once

#include <cstdint>

#include "preload/call_frame.h"
#include "recording/format.h"

namespace headroom::preload {

class KnownWalks {
 public:
  static constexpr std::uint32_t kMostFrames = 40;
  static_assert(kMostFrames < recording::kMaxFrames);  // a truncated walk is never kept

  struct Walk {
    // The stack's number in the thread's segment; 0: none yet.
    std::uint32_t segment = 0, number = 0;
    // Returns the walk's result; copies the return addresses to `frames`.
    StackTrace trace(std::uint64_t* frames) const {
      StackTrace trace{frames, count_, hash_};
      for (std::uint32_t i = 0; i < count_; ++i) frames[i] = frames_[i];
      return trace;
    }

   private:
    friend class KnownWalks;
    // A frame that is located by a frame pointer needs two words: its return address and that pointer.
    static constexpr std::uint32_t kMostWords = 2 * kMostFrames;
    std::uint64_t pc_, sp_, fp_;
    std::uint64_t era_;
    std::uint64_t hash_;
    bool depends_on_fp_;
    std::uint32_t count_;                // frames; 0: only the start was seen, the walk is not kept
    std::uint32_t word_count_;           // words that the walk read
    std::uint32_t offsets_[kMostWords];  // from sp, in bytes
    std::uint64_t words_[kMostWords];
    std::uint64_t frames_[kMostFrames];
  };

  // Finds the kept walk that starts here, on the thread's own stack. Null: the stack must be walked.
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

  // Offers a walk that just started here, with its history. Returns null if it is not kept.
  Walk* keep(const CallFrame& start, const StackBounds& bounds, const WalkHistory& history,
             const StackTrace& trace);

  // Drops all walks, because another thread, with another stack, takes over this cache.
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

  // A new era begins when a module is unloaded, and when another thread takes over this cache. Walks of
  // earlier eras are invalid.
  std::uint64_t era_ = 0, epoch_ = 0;
  Walk walks_[kWalks];
};

}  // namespace headroom::preload
