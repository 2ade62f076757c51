#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "recording/format.h"
#include "tracer/call_frame.h"
#include "tracer/frame_rules.h"

// Where the main thread's stack begins; the dynamic linker's.
extern "C" void* __libc_stack_end __attribute__((weak));

namespace headroom::tracer {

std::atomic<std::uint64_t> stack_epoch{0};

namespace {

constexpr std::uint64_t kLowestCode = 4096;  // what is below is no return address
constexpr std::uint64_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(std::uint64_t address) { return *reinterpret_cast<const std::uint64_t*>(address); }

// A thread may run on a stack that is not its own: a coroutine's, a signal handler's. Then only the rest of
// the page that it is on is sure to be there.
StackBounds readable_from(std::uint64_t sp, const StackBounds& bounds) {
  if (sp >= bounds.low && sp < bounds.high) return {sp, bounds.high};
  constexpr std::uint64_t kPage = 4096;
  return {sp, (sp | (kPage - 1)) + 1};
}

struct StackReader {
  StackBounds bounds;
  bool may_read(std::uint64_t address) const {
    return address >= bounds.low && address <= bounds.high - kWord && address % kWord == 0;
  }
};

// One step by the chain of frame pointers, each of which points to {caller's frame pointer, return address}.
bool step_by_frame_pointer(const StackReader& stack, CallFrame& frame) {
  const std::uint64_t fp = frame.fp;
  if (fp < frame.sp || !stack.may_read(fp) || !stack.may_read(fp + kWord)) return false;
  frame = {plain_address(word_at(fp + kWord)), fp + 2 * kWord, word_at(fp)};
  return true;
}

// The kernel put the interrupted registers on the stack, and __restore_rt is about to take them back.
bool step_over_signal(StackReader& stack, CallFrame& frame) {
#if defined(__x86_64__)
  constexpr std::uint64_t kContextOffset = 0;
#else
  constexpr std::uint64_t kContextOffset = sizeof(siginfo_t);
#endif
  const std::uint64_t context_at = frame.sp + kContextOffset;
  if (!stack.may_read(context_at) || !stack.may_read(context_at + sizeof(ucontext_t) - kWord)) return false;
  const auto& machine = reinterpret_cast<const ucontext_t*>(context_at)->uc_mcontext;
  CallFrame interrupted;
#if defined(__x86_64__)
  interrupted.pc = static_cast<std::uint64_t>(machine.gregs[REG_RIP]) + 1;
  interrupted.sp = static_cast<std::uint64_t>(machine.gregs[REG_RSP]);
  interrupted.fp = static_cast<std::uint64_t>(machine.gregs[REG_RBP]);
#else
  interrupted.pc = machine.pc + 1;
  interrupted.sp = machine.sp;
  interrupted.fp = machine.regs[29];
#endif
  // The interrupted instruction is itself the place; one more makes it look like a return address.
  if (interrupted.sp <= frame.sp || !stack.may_read(interrupted.sp & ~(kWord - 1))) return false;
  frame = interrupted;
  return true;
}

}  // namespace

StackBounds stack_bounds_of_this_thread() {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  if (::syscall(SYS_gettid) == ::getpid() && &__libc_stack_end != nullptr) {
    // The kernel keeps at least 128 MiB below the main stack's end free of other mappings.
    constexpr std::uint64_t kKeptFree = 128 << 20;
    const auto end = reinterpret_cast<std::uint64_t>(__libc_stack_end);
    rlimit limit{};
    const bool is_less = ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kKeptFree;
    return {end - (is_less ? limit.rlim_cur : kKeptFree), end};
  }
  // glibc knows the stacks that it made without asking the kernel.
  StackBounds bounds{here, here};
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* low = nullptr;
    std::size_t size = 0;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
      bounds.low = reinterpret_cast<std::uint64_t>(low);
      bounds.high = bounds.low + size;
    }
    pthread_attr_destroy(&attributes);
  }
  return bounds;
}

void walk_frame_pointers(const CallFrame& start, const StackBounds& bounds, StackTrace& trace) {
  const StackReader stack{readable_from(start.sp, bounds)};
  CallFrame frame = start;
  while (frame.pc >= kLowestCode && trace.count < recording::kMaxFrames) {
    trace.add(frame.pc);
    if (!step_by_frame_pointer(stack, frame)) break;
  }
}

void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, StackTrace& trace) {
  StackReader stack{readable_from(start.sp, bounds)};
  CallFrame frame = start;
  while (frame.pc >= kLowestCode && trace.count < recording::kMaxFrames) {
    trace.add(frame.pc);
    const FrameRule rule = rule_at(frame.pc);
    std::uint64_t cfa = 0;
    switch (rule.kind) {
      case FrameRule::kSp:
        cfa = frame.sp + rule.cfa_offset;
        break;
      case FrameRule::kFp:
        cfa = frame.fp + rule.cfa_offset;
        break;
      case FrameRule::kFpIndirect: {  // a function that aligned its stack: the CFA was stored near its frame
                                      // pointer
        const std::uint64_t stored = frame.fp - rule.cfa_offset;
        if (!stack.may_read(stored) || stored < frame.sp) return;
        cfa = word_at(stored);
        break;
      }
      case FrameRule::kSignal:
        if (!step_over_signal(stack, frame)) return;
        continue;
      case FrameRule::kUnknown:
        if (!step_by_frame_pointer(stack, frame)) return;
        continue;
      case FrameRule::kOutermost:
        return;
    }
    if (cfa <= frame.sp || cfa > stack.bounds.high) return;
    const std::uint64_t return_at = cfa - rule.return_offset;
    if (!stack.may_read(return_at)) return;
    if (rule.fp_offset != 0) {
      const std::uint64_t fp_at = rule.kind == FrameRule::kFpIndirect ? frame.fp : cfa - rule.fp_offset;
      if (!stack.may_read(fp_at)) return;
      frame.fp = word_at(fp_at);
    }
    frame.pc = plain_address(word_at(return_at));
    frame.sp = cfa;
  }
}

}  // namespace headroom::tracer
