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

// Call it only in a function that keeps its frame pointer (the tracer is built with -fno-omit-frame-pointer).
// It is inlined into the hook.
[[gnu::always_inline]] inline CallFrame caller_of_this_function() {
  const auto* frame = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
  return {plain_address(reinterpret_cast<std::uint64_t>(__builtin_return_address(0))),
          reinterpret_cast<std::uint64_t>(__builtin_dwarf_cfa()), frame[0]};
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
    std::uint32_t rule;       // the rule of pc, as in its table word (frame_rules.h)
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

}  // namespace headroom::preload
