// The registers of a hook's caller, stack traces, and the bounds within which a stack may be read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recording/format.h"

namespace headroom::preload {

// The registers of the hook's caller, as they are when the hook returns.
struct CallFrame {
  std::uint64_t pc, sp, fp;
};

#if defined(__aarch64__)
// Pointer authentication signs the upper bits of a return address; code addresses have 48 bits.
inline std::uint64_t plain_address(std::uint64_t pc) { return pc & ((std::uint64_t{1} << 48) - 1); }
#else
inline std::uint64_t plain_address(std::uint64_t pc) { return pc; }
#endif

// The stack pointer at the entry of the function into which this is inlined. On aarch64, clang's
// __builtin_dwarf_cfa() returns the frame pointer instead (clang 22).
[[gnu::always_inline]] inline void* stack_at_entry() {
#if defined(__aarch64__) && defined(__clang__)
  return __builtin_sponentry();
#else
  return __builtin_dwarf_cfa();
#endif
}

// Call it only in a function that keeps its frame pointer (the tracer is built with -fno-omit-frame-pointer).
// It is inlined into the hook.
[[gnu::always_inline]] inline CallFrame caller_of_this_function() {
  const auto* frame = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
  return {plain_address(reinterpret_cast<std::uint64_t>(__builtin_return_address(0))),
          reinterpret_cast<std::uint64_t>(stack_at_entry()), frame[0]};
}

// The readable part of a stack: [low, high).
struct StackBounds {
  std::uint64_t low = 0, high = 0;
};

// The calling thread's stack. Does not allocate.
StackBounds stack_bounds_of_this_thread();

// Changes when a module is unloaded, because its addresses may be reused for other code.
extern std::atomic<std::uint64_t> stack_epoch;
inline void forget_stacks() { stack_epoch.fetch_add(1, std::memory_order_relaxed); }

struct WalkHistory;

// Powers of an odd number and of its inverse, modulo 2^64.
inline constexpr std::uint64_t kHashFactor = 0x9e3779b97f4a7c15;
inline constexpr std::uint32_t kMostWalked = 128;
struct HashPowers {
  std::uint64_t up[kMostWalked], down[kMostWalked];
};
extern const HashPowers hash_powers;

// Return addresses, innermost first, and a hash of them: the sum of each address times up[number of frames
// further out]. So the hash of outer frames that are known already can be added later.
//
// Outer frames that a thread's last walk found, too, are only referred to until complete() copies them.
struct StackTrace {
  std::uint64_t* frames;  // space for recording::kMaxFrames
  std::uint32_t count = 0;
  std::uint64_t hash = stack_epoch.load(std::memory_order_relaxed);
  const WalkHistory* outer = nullptr;
  std::uint32_t outer_begin = 0, outer_end = 0;  // these frames of `outer`, the last one first
  void add(std::uint64_t pc) {
    hash = hash * kHashFactor + pc;
    frames[count++] = pc;
  }
  bool is_full() const { return count == recording::kMaxFrames; }
  std::uint32_t depth() const { return count + outer_end - outer_begin; }
  void complete();
};

// What a thread's stack walks found, to shorten the next one.
//
// A walk by unwind rules is a chain of dependent loads: each return address must be loaded before its rule
// can be looked up, and each rule before the next return address (4 ns a frame). But most frames of a thread
// are where they were in an earlier walk. So the history keeps a walk and the words of the stack that it
// read. A new walk first compares these words, from the outermost frame inwards, which are independent loads.
// The frames up to the first changed word can be joined: where the walk arrives at one of them with the same
// registers, the rest is known, with its hash.
//
// Nothing is assumed: a frame is only joined if every word that the walk would read from there on was read
// again and is unchanged.
struct WalkHistory {
  struct Frame {
    std::uint64_t pc, sp, fp;
    std::uint32_t checks_end;     // the checks of this frame's step end here
    std::uint32_t depends_on_fp;  // whether the walk from here on depends on the frame pointer
  };
  struct Check {
    std::uint64_t at, word;
  };
  static constexpr std::uint32_t kMostChecks = 3 * kMostWalked;
  std::uint64_t epoch = 0;  // stack_epoch when the frames were found
  std::uint32_t count = 0;
  std::uint32_t walk_end = 0;  // the last walk consists of frames[0, walk_end); 0: it is not here
  // Whether remembering pays: what was remembered last, and how many frames walks have joined of it.
  std::uint32_t kept = 0, remembered = 0, gained = 0;
  std::uint32_t pause = 0, left_to_pause = 0;  // in walks that could be remembered
  bool is_cut = false;                         // frames[0] has a caller, which is unknown
  std::uint64_t last_pc = 0, last_sp = 0;      // the start of the last walk
  Frame frames[kMostWalked];                   // outermost first, so that unchanged frames keep their index
  std::uint64_t sums[kMostWalked + 1];         // of pc × up[index] of the frames before this index
  Check checks[kMostChecks];
  std::uint32_t owners[kMostChecks];   // the frame of each check
  std::uint64_t reached[kMostChecks];  // the lowest address of the checks up to this one

  // The number of frames, from the outermost one, that can be joined by a walk that starts at `sp`.
  std::uint32_t joinable(std::uint64_t sp) const;
  std::uint64_t hash_of(std::uint32_t begin, std::uint32_t end) const {
    return (sums[end] - sums[begin]) * hash_powers.down[begin];
  }
  // Replaces frames[outer, count) by these frames of a walk, innermost first, which leads there.
  struct Step {
    std::uint64_t pc, sp, fp;
    std::uint64_t return_at, fp_at, cfa_at;  // where the step to the caller read; 0: it did not
    bool uses_fp;
  };
  void replace(std::uint32_t outer, const Step* steps, std::uint32_t fresh);
  // Whether to remember a walk that joined `outer` frames and found `fresh` others.
  bool is_worth_remembering(std::uint32_t outer, std::uint32_t fresh);
};

// Both functions follow the chain as long as its stack pointers increase, are aligned and lie within the
// bounds.
void walk_frame_pointers(const CallFrame& start, const StackBounds& bounds, StackTrace& trace);
// `is_rare`: the walk is always remembered, whether or not the last ones were of use.
void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, WalkHistory& history,
                       StackTrace& trace, bool is_rare = false);

// Whether a signal handler may be among the callers. Also true on a stack that is not the thread's own,
// because it may be a signal stack.
bool may_be_in_signal_handler(const CallFrame& start, const StackBounds& bounds);

// The rules that lead from a return address to the caller's frame, cached per address.
//
// Most code of distributions keeps no frame pointers. Instead, .eh_frame describes each function's frame by a
// small program. Running it takes about a microsecond, so its result is cached: one 64-bit word an address,
// in one table for all threads. A word is read and written whole, so no lock is needed. The table is direct
// mapped and has 65536 words (512 KiB, of which only the pages in use exist); addresses with the same index
// evict each other. Return addresses lie at least four bytes apart, with rare exceptions. So the index leaves
// out their lowest two bits, and the calls of a function share a few cache lines.

// How to compute the caller's stack pointer (the "canonical frame address", CFA) and what was saved below it.
// Besides the stack pointer only the frame pointer is tracked: hardly any code computes its CFA from another
// register.
struct FrameRule {
  enum Kind : std::uint32_t {
    kUnknown = 1,     // no unwind information: follow the frame pointer
    kSp = 2,          // CFA = sp + cfa_offset
    kFp = 3,          // CFA = fp + cfa_offset
    kFpIndirect = 4,  // CFA = *(fp - cfa_offset), and the caller's fp is at *fp
    kSignal = 5,      // the kernel's frame below a signal handler
    kOutermost = 6,   // there is no caller
  };
  Kind kind = kUnknown;
  std::uint32_t cfa_offset = 0;
  std::uint32_t fp_offset = 0;      // the caller's fp is at CFA - fp_offset; 0: still in the register
  std::uint32_t return_offset = 8;  // the return address is at CFA - return_offset
};

// Computes the rule from the module's unwind information (unwind_rules.cpp).
FrameRule find_frame_rule(std::uint64_t pc);

inline constexpr unsigned kRuleIndexBits = 16;
extern std::atomic<std::uint64_t> frame_rule_words[1 << kRuleIndexBits];

// Drops all rules when a module is unloaded, because another may reuse its addresses.
void forget_frame_rules();
FrameRule learn_frame_rule(std::uint64_t pc);

// Layout of a word, from the highest bit: 34 bits for the address · 8 that depend on the architecture · 19 of
// cfa_offset/8 · 3 of kind. So one instruction extracts cfa_offset, because the next load waits for it. The
// bits for the address are chosen so that one comparison takes few instructions. Together with the index they
// give all 48 bits of the address. Words of the kinds other than kSp and kFp have them inverted, so the same
// comparison sorts these out.
namespace frame_rule_word {
inline constexpr std::uint64_t kCfaOffsetBits = 0x7ffff << 3;
inline constexpr unsigned kSavedAt = 22, kTagAt = 30;
inline constexpr std::uint64_t kTagBits = ~std::uint64_t{0} << kTagAt;
inline std::uint64_t tag_of(std::uint64_t pc) { return ~((pc >> kRuleIndexBits ^ pc) << kTagAt) & kTagBits; }
inline std::uint64_t index_of(std::uint64_t pc) { return pc >> 2 & ((1u << kRuleIndexBits) - 1); }
inline std::uint64_t load(std::uint64_t pc) {
  return frame_rule_words[index_of(pc)].load(std::memory_order_relaxed);
}
// Whether the word is the rule of this address, of kind kSp or kFp.
inline bool is_simple_rule_of(std::uint64_t word, std::uint64_t pc) {
  constexpr std::uint64_t kIgnored = ~(kTagBits | FrameRule::kSp);  // an empty word has no kind
  return (((pc >> kRuleIndexBits ^ pc) << kTagAt ^ word) | kIgnored) == ~std::uint64_t{0};
}
inline FrameRule::Kind kind_of(std::uint64_t word) { return static_cast<FrameRule::Kind>(word & 7); }
inline bool uses_fp(std::uint64_t simple) { return (simple & 1) != 0; }
inline std::uint64_t cfa_offset(std::uint64_t word) { return word & kCfaOffsetBits; }
inline std::uint64_t saved(std::uint64_t word) { return word >> kSavedAt & 0xff; }
#if defined(__aarch64__)
// saved == 0: the pair {fp, return address} is at the bottom of the frame. Otherwise it encodes the place of
// the return address, and whether the frame pointer is saved below it.
inline std::uint64_t return_offset(std::uint64_t word) {
  return saved(word) == 0 ? cfa_offset(word) - 8 : (saved(word) >> 1) * 8;
}
inline bool restores_fp(std::uint64_t word) { return saved(word) == 0 || (saved(word) & 1) != 0; }
// The lowest word of the frame that the step reads: the frame pointer, or else the return address.
inline std::uint64_t lowest_offset(std::uint64_t word) {
  return return_offset(word) + (restores_fp(word) ? 8 : 0);
}
// Whether the word is the rule of this address, for a frame whose frame pointer points to {caller's frame
// pointer, return address} at its end. On this architecture the record is at the other end of the frame,
// whose size differs.
inline bool is_frame_record_rule_of(std::uint64_t, std::uint64_t) { return false; }
#else
inline bool is_frame_record_rule_of(std::uint64_t word, std::uint64_t pc) {
  constexpr std::uint64_t kRecord = kTagBits | std::uint64_t{2} << kSavedAt | 16 | FrameRule::kFp;
  return word == ((pc >> kRuleIndexBits ^ pc) << kTagAt ^ kRecord);
}
// The frame pointer is saved at CFA − 8·saved. 1, the place of the return address: it is not saved.
inline std::uint64_t return_offset(std::uint64_t) { return 8; }
inline bool restores_fp(std::uint64_t word) { return saved(word) != 1; }
inline std::uint64_t lowest_offset(std::uint64_t word) { return saved(word) * 8; }
#endif
inline FrameRule unpack(std::uint64_t word) {
  FrameRule rule;
  rule.kind = kind_of(word);
  rule.cfa_offset = static_cast<std::uint32_t>(cfa_offset(word));
  rule.return_offset = static_cast<std::uint32_t>(return_offset(word));
  rule.fp_offset = restores_fp(word) ? static_cast<std::uint32_t>(lowest_offset(word)) : 0;
  return rule;
}
// Returns 0 if the rule does not fit into a word.
std::uint64_t pack(std::uint64_t pc, const FrameRule& rule);
}  // namespace frame_rule_word

// Loads the cache line of the rule that a walk from here needs first.
inline void prefetch_frame_rule(const CallFrame& start) {
  __builtin_prefetch(&frame_rule_words[frame_rule_word::index_of(start.pc)]);
}

[[gnu::always_inline]] inline FrameRule rule_at(std::uint64_t pc) {
  const std::uint64_t word = frame_rule_word::load(pc);
  const bool is_of_pc = (word & frame_rule_word::kTagBits) == frame_rule_word::tag_of(pc) ||
                        (~word & frame_rule_word::kTagBits) == frame_rule_word::tag_of(pc);
  if (__builtin_expect(is_of_pc && frame_rule_word::kind_of(word) != 0, 1))
    return frame_rule_word::unpack(word);
  return learn_frame_rule(pc);
}

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
//
// Keeping a walk costs as much as three walks. So where every allocation is recorded, a start whose walks are
// not found again is given up for longer and longer, and while few walks are found, none is searched.
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
    std::uint16_t found_;                // how often, since it was kept
    std::uint16_t pause_, left_;         // walks from this start, or from others, before another one is kept
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
    Walk& walk = place_of(start);
    if (!starts_at(walk, start) || walk.count_ == 0 || (walk.depends_on_fp_ && walk.fp_ != start.fp))
      return nullptr;
    return reads_the_same(walk) ? &walk : nullptr;
  }

  // The same where all allocations are recorded. Null as well while searching does not pay.
  [[gnu::always_inline]] Walk* find_often(const CallFrame& start) {
    if (unsearched_ > 0) {
      --unsearched_;
      return nullptr;
    }
    Walk* const walk = find(start);
    constexpr std::int32_t kMost = 512, kUnsearched = 8192;
    if (walk != nullptr) {
      if (score_ < kMost) ++score_;
      if (walk->found_ < kEnough) ++walk->found_;
    } else if (--score_ <= -kMost) {
      score_ = 0;
      unsearched_ = kUnsearched;
    }
    return walk;
  }
  // Whether to keep the walk that starts here, after find_often() returned null.
  bool is_worth_keeping(const CallFrame& start);

  // Offers a walk that just started here, with its history. Returns null if it is not kept.
  Walk* keep(const CallFrame& start, const WalkHistory& history, const StackTrace& trace);

  // Drops all walks, because another thread, with another stack, takes over this cache.
  void forget() { ++era_; }

 private:
  static constexpr std::uint32_t kWalks = 128;
  static constexpr std::uint16_t kEnough = 8;  // found so often, a walk was worth keeping
  static std::uint32_t index_of(const CallFrame& start) {
    return static_cast<std::uint32_t>(((start.pc ^ start.sp << 20) * 0x9e3779b97f4a7c15) >> 57);
  }
  // One of two neighbours: the one that starts here, if any.
  [[gnu::always_inline]] Walk& place_of(const CallFrame& start) {
    Walk& first = walks_[index_of(start)];
    return __builtin_expect(starts_at(first, start), 1) ? first : walks_[index_of(start) ^ 1];
  }
  bool starts_at(const Walk& walk, const CallFrame& start) const {
    return walk.pc_ == start.pc && walk.sp_ == start.sp && walk.era_ == era_;
  }
  void offer(const CallFrame& start);
  // Only the start was seen.
  void mark(Walk& walk, const CallFrame& start) const;
  static bool reads_the_same(const Walk& walk);
  static bool fill(Walk& walk, const CallFrame& start, const WalkHistory& history);

  // A new era begins when a module is unloaded, and when another thread takes over this cache. Walks of
  // earlier eras are invalid.
  std::uint64_t era_ = 0, epoch_ = 0;
  std::int32_t score_ = 0, unsearched_ = 0;
  Walk walks_[kWalks];
};

}  // namespace headroom::preload
