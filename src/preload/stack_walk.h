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

// Return addresses, innermost first, and a hash of them. The hash is the sum of address times
// factors[position], so its products do not depend on each other.
struct StackTrace {
  std::uint64_t* frames;  // space for recording::kMaxFrames
  std::uint32_t count = 0;
  std::uint64_t hash = stack_epoch.load(std::memory_order_relaxed);
  void add(std::uint64_t pc) {
    hash += pc * factors[count];
    frames[count++] = pc;
  }
  bool is_full() const { return count == recording::kMaxFrames; }

  static const std::array<std::uint64_t, recording::kMaxFrames> factors;
};

// What a thread's last stack walk found, to speed up the next one.
//
// A walk by unwind rules is a chain of dependent loads, about 5 ns a frame. Each return address must be
// loaded before its rule can be looked up. But most frames of a thread are where they were in its last walk.
// Where the stack pointer and the rule are unchanged, the caller's address and frame pointer are saved in the
// same places. So the walk reads those places for many frames ahead while the processor still checks the
// rules.
//
// Nothing is assumed: each return address is read from the stack again. Only if it equals that of the last
// walk, its rule is known to be the same. Otherwise the rule is looked up in the table, where each word is in
// another cache line and mostly in another page. How much this saves between a runtime's kernel launches has
// not been measured.
struct WalkHistory {
  struct Step {
    std::uint64_t pc;         // 0: this step is unknown
    std::uint64_t sp, fp;     // at the start of the step
    std::uint32_t rule;       // the rule of pc, as in its table word (see below)
    std::uint32_t to_caller;  // distance from sp to the caller's sp
    std::uint32_t to_return;  // distance from sp to the return address
    std::uint32_t to_fp;      // distance from sp to the saved frame pointer; kSameFp: not saved
  };
  static constexpr std::uint32_t kNoRule = ~std::uint32_t{0}, kSameFp = ~std::uint32_t{0};
  std::uint64_t epoch = 0;  // stack_epoch when the steps were taken
  std::uint32_t count = 0;
  Step steps[recording::kMaxFrames];  // outermost first, so that unchanged steps keep their index
  Step fresh[recording::kMaxFrames];  // steps of the walk in progress, innermost first
};

// Both functions follow the chain as long as its stack pointers increase, are aligned and lie within the
// bounds.
void walk_frame_pointers(const CallFrame& start, const StackBounds& bounds, StackTrace& trace);
void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, WalkHistory& history,
                       StackTrace& trace);

// Whether a signal handler may be among the callers. Also true on a stack that is not the thread's own,
// because it may be a signal stack.
bool may_be_in_signal_handler(const CallFrame& start, const StackBounds& bounds);

// The rules that lead from a return address to the caller's frame, cached per address.
//
// Most code of distributions keeps no frame pointers. Instead, .eh_frame describes each function's frame by a
// small program. Running it takes about a microsecond, so its result is cached: one 64-bit word an address,
// in one table for all threads. A word is read and written whole, so no lock is needed. A stack of ten frames
// costs ten loads more than with frame pointers. The table is direct mapped and has 32768 words (256 KiB);
// addresses with the same index evict each other.
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

inline constexpr unsigned kRuleIndexBits = 15;
extern std::atomic<std::uint64_t> frame_rule_words[1 << kRuleIndexBits];

// Drops all rules when a module is unloaded, because another may reuse its addresses.
void forget_frame_rules();
FrameRule learn_frame_rule(std::uint64_t pc);

// Layout of a word: 33 bits of the address · 3 of kind · 19 of cfa_offset/8 · 8 that depend on the
// architecture. The word and its index together give all 48 bits of the address.
namespace frame_rule_word {
inline std::uint64_t tag_of(std::uint64_t pc) { return pc >> kRuleIndexBits; }
inline std::uint64_t index_of(std::uint64_t pc) {
  return (pc ^ (pc >> (kRuleIndexBits + 1))) & ((1u << kRuleIndexBits) - 1);
}
inline constexpr std::uint64_t kRuleBits = (std::uint64_t{1} << 30) - 1;
inline std::uint64_t load(std::uint64_t pc) {
  return frame_rule_words[index_of(pc)].load(std::memory_order_relaxed);
}
inline FrameRule::Kind kind_of(std::uint64_t word) { return static_cast<FrameRule::Kind>(word >> 27 & 7); }
inline FrameRule unpack(std::uint64_t word) {
  FrameRule rule;
  rule.kind = kind_of(word);
  rule.cfa_offset = static_cast<std::uint32_t>(word >> 8 & 0x7ffff) * 8;
  const auto saved = static_cast<std::uint32_t>(word & 0xff);
#if defined(__aarch64__)
  // saved == 0: the pair {fp, return address} is at the bottom of the frame. Otherwise it encodes the place
  // of the return address, and whether the frame pointer is saved below it.
  rule.return_offset = saved == 0 ? rule.cfa_offset - 8 : (saved >> 1) * 8;
  rule.fp_offset = saved == 0 || (saved & 1) != 0 ? rule.return_offset + 8 : 0;
#else
  rule.fp_offset = saved * 8;
#endif
  return rule;
}
// Returns 0 if the rule does not fit into a word.
std::uint64_t pack(std::uint64_t pc, const FrameRule& rule);
}  // namespace frame_rule_word

[[gnu::always_inline]] inline FrameRule rule_at(std::uint64_t pc) {
  const std::uint64_t word = frame_rule_words[frame_rule_word::index_of(pc)].load(std::memory_order_relaxed);
  if (__builtin_expect(word >> 30 == frame_rule_word::tag_of(pc), 1)) return frame_rule_word::unpack(word);
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
