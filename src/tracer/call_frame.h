// Where a thread was when it called into the tracer, and the bounds within which its stack may be read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

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

// What hashes of stacks begin with. It changes when a module goes: the same addresses may mean something else
// then.
extern std::atomic<std::uint64_t> stack_epoch;
inline void forget_stacks() { stack_epoch.fetch_add(1, std::memory_order_relaxed); }

// Return addresses, innermost first, with a hash of them.
struct StackTrace {
  std::uint64_t* frames;  // room for recording::kMaxFrames
  std::uint32_t count = 0;
  std::uint64_t hash = stack_epoch.load(std::memory_order_relaxed);
  void add(std::uint64_t pc) {
    frames[count++] = pc;
    hash = (hash ^ pc) * 0x9e3779b97f4a7c15;
  }
};

// Each follows the chain as far as it makes sense: stack pointers that rise, aligned, within the bounds.
void walk_frame_pointers(const CallFrame& start, const StackBounds& bounds, StackTrace& trace);
void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, StackTrace& trace);

}  // namespace headroom::tracer
