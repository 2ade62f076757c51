// Where a thread was when it called into the tracer, and the bounds within which its stack may be read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recording/format.h"

namespace headroom::tracer {

// The registers of the hook's caller, as they are when the hook returns.
struct CallFrame {
  std::uint64_t pc, sp, fp;
};

#if defined(__aarch64__)
// Pointer authentication signs the upper bits of a return address; addresses of programs have 48 bits.
inline std::uint64_t plain_address(std::uint64_t pc) { return pc & ((std::uint64_t{1} << 48) - 1); }
#else
inline std::uint64_t plain_address(std::uint64_t pc) { return pc; }
#endif

// Only in a function that keeps its frame pointer (the tracer is built with -fno-omit-frame-pointer); it is
// inlined into the hook.
[[gnu::always_inline]] inline CallFrame caller_of_this_function() {
  const auto* frame = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
  return {plain_address(reinterpret_cast<std::uint64_t>(__builtin_return_address(0))),
          reinterpret_cast<std::uint64_t>(__builtin_dwarf_cfa()), frame[0]};
}

// [low, high): what may be read of a stack.
struct StackBounds {
  std::uint64_t low = 0, high = 0;
};

// Of the calling thread. Allocates nothing.
StackBounds stack_bounds_of_this_thread();

// Changes when a module goes: the same addresses may mean something else then.
extern std::atomic<std::uint64_t> stack_epoch;
inline void forget_stacks() { stack_epoch.fetch_add(1, std::memory_order_relaxed); }

// Return addresses, innermost first, with a hash of them: the sum of each times a number of its place's own,
// whose products do not wait for each other.
struct StackTrace {
  std::uint64_t* frames;  // room for recording::kMaxFrames
  std::uint32_t count = 0;
  std::uint64_t hash = stack_epoch.load(std::memory_order_relaxed);
  void add(std::uint64_t pc) {
    hash += pc * factors[count];
    frames[count++] = pc;
  }
  bool is_full() const { return count == recording::kMaxFrames; }

  static const std::array<std::uint64_t, recording::kMaxFrames> factors;
};

// What a thread's last walk found, to make the next one fast.
//
// A walk by rules is a chain: each return address must be loaded before the next rule can be, about 5 ns a
// frame. But most frames of a thread lie where those of its last walk lay. Where the stack pointer and the
// rule are the same as then, so are the places of the caller's address and frame pointer; so these can be
// read at once, for many frames ahead, while the processor still checks that the rules are the same. Nothing
// is taken on trust: each address is read from the stack again, and only where it is that of the last walk is
// its rule known to be the same. Else the rule is looked up, in a table whose every word lies in another line
// of the cache and mostly in another page. What that saves between a runtime's launches of kernels has not
// been measured.
struct WalkHistory {
  struct Step {
    std::uint64_t pc;         // 0: nothing is known of this step
    std::uint64_t sp, fp;     // where the step starts
    std::uint32_t rule;       // of pc, as in its word (frame_rules.h)
    std::uint32_t to_caller;  // from sp to the caller's,
    std::uint32_t to_return;  // to where the return address lies,
    std::uint32_t to_fp;      // and to the caller's frame pointer; kSameFp: it is the same
  };
  static constexpr std::uint32_t kNoRule = ~std::uint32_t{0}, kSameFp = ~std::uint32_t{0};
  std::uint64_t epoch = 0;  // stack_epoch of the steps
  std::uint32_t count = 0;
  Step steps[recording::kMaxFrames];  // outermost first, so that they can stay where they are
  Step fresh[recording::kMaxFrames];  // of the walk that goes on, innermost first
};

// Each follows the chain as far as it makes sense: stack pointers that rise, aligned, within the bounds.
void walk_frame_pointers(const CallFrame& start, const StackBounds& bounds, StackTrace& trace);
void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, WalkHistory& history,
                       StackTrace& trace);

// Whether a signal handler is among the callers; true too on a stack that is not the thread's own, which may
// be a handler's.
bool may_be_in_signal_handler(const CallFrame& start, const StackBounds& bounds);

}  // namespace headroom::tracer
