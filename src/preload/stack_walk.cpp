#include "preload/stack_walk.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/modules.h"
#include "preload/process.h"
#include "recording/format.h"

// Where the main thread's stack begins, defined by the dynamic linker.
extern "C" void* __libc_stack_end __attribute__((weak));

namespace headroom::preload {

std::atomic<std::uint64_t> stack_epoch{0};

namespace {
constexpr std::array<std::uint64_t, recording::kMaxFrames> odd_random_numbers() {
  std::array<std::uint64_t, recording::kMaxFrames> numbers{};
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (std::uint64_t& number : numbers) {  // splitmix64
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    number = (z ^ (z >> 31)) | 1;
  }
  return numbers;
}
}  // namespace

constinit const std::array<std::uint64_t, recording::kMaxFrames> StackTrace::factors = odd_random_numbers();

namespace {

constexpr std::uint64_t kLowestCode = 4096;  // lower values are not return addresses
constexpr std::uint64_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(std::uint64_t address) { return *reinterpret_cast<const std::uint64_t*>(address); }

// A thread may run on a stack that is not its own (of a coroutine or a signal handler). Then only the rest of
// the current page is known to be readable.
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

// One step along the chain of frame pointers; each points to {caller's frame pointer, return address}.
bool step_by_frame_pointer(const StackReader& stack, CallFrame& frame) {
  const std::uint64_t fp = frame.fp;
  if (fp < frame.sp || !stack.may_read(fp) || !stack.may_read(fp + kWord)) return false;
  frame = {plain_address(word_at(fp + kWord)), fp + 2 * kWord, word_at(fp)};
  return true;
}

// The kernel saved the interrupted registers on the stack, and __restore_rt will restore them.
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
  // The interrupted instruction is the exact place; adding one makes it look like a return address.
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
    const StackBounds bounds{end - (is_less ? limit.rlim_cur : kKeptFree), end};
    // In a child that was forked by a thread other than the main one, that thread is now the main thread.
    if (!is_forked_child() || (here >= bounds.low && here < bounds.high)) return bounds;
  }
  // glibc knows the stacks that it created without asking the kernel.
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
  while (frame.pc >= kLowestCode && !trace.is_full()) {
    trace.add(frame.pc);
    if (!step_by_frame_pointer(stack, frame)) break;
  }
}

namespace {

using Step = WalkHistory::Step;

// The rule of this address as in its table word. kNoRule, which equals no rule, if the rule does not fit.
std::uint32_t rule_bits_of(std::uint64_t pc) {
  const std::uint64_t word = frame_rule_word::load(pc);
  return word >> 30 == frame_rule_word::tag_of(pc)
             ? static_cast<std::uint32_t>(word & frame_rule_word::kRuleBits)
             : WalkHistory::kNoRule;
}
bool counts_from_fp(std::uint32_t rule) { return frame_rule_word::kind_of(rule) == FrameRule::kFp; }

// A step with implausible distances stays unknown.
void remember(Step& step, const CallFrame& frame, std::uint64_t cfa, std::uint64_t return_at,
              std::uint64_t fp_at) {
  constexpr std::uint64_t kFarthest = WalkHistory::kSameFp;
  const std::uint64_t to_caller = cfa - frame.sp, to_return = return_at - frame.sp;
  const std::uint64_t to_fp = fp_at != 0 ? fp_at - frame.sp : 0;
  const std::uint32_t rule = rule_bits_of(frame.pc);
  if (rule == WalkHistory::kNoRule || (to_caller | to_return | to_fp) >= kFarthest) return;
  step = {frame.pc,
          frame.sp,
          frame.fp,
          rule,
          static_cast<std::uint32_t>(to_caller),
          static_cast<std::uint32_t>(to_return),
          fp_at != 0 ? static_cast<std::uint32_t>(to_fp) : WalkHistory::kSameFp};
}

// Moves to the caller by the rule of the frame's address, and remembers the distances in `step`. Returns
// false if there is no caller or the chain is implausible.
[[gnu::noinline]] bool step_by_rule(StackReader& stack, CallFrame& frame, Step& step) {
  const FrameRule rule = rule_at(frame.pc);
  step = {0, frame.sp, frame.fp, WalkHistory::kNoRule, 0, 0, 0};
  std::uint64_t cfa = 0;
  switch (rule.kind) {
    case FrameRule::kSp:
      cfa = frame.sp + rule.cfa_offset;
      break;
    case FrameRule::kFp:
      cfa = frame.fp + rule.cfa_offset;
      break;
    // a function that aligned its stack: the CFA was saved near its frame pointer
    case FrameRule::kFpIndirect: {
      const std::uint64_t stored = frame.fp - rule.cfa_offset;
      if (stored < frame.sp || !stack.may_read(stored) || !stack.may_read(frame.fp)) return false;
      cfa = word_at(stored);
      break;
    }
    case FrameRule::kSignal:
      return step_over_signal(stack, frame);
    case FrameRule::kUnknown:
      return step_by_frame_pointer(stack, frame);
    case FrameRule::kOutermost:
      return false;
  }
  const std::uint64_t return_at = cfa - rule.return_offset, fp_at = cfa - rule.fp_offset;
  if (cfa <= frame.sp || cfa > stack.bounds.high || !stack.may_read(return_at)) return false;
  if (rule.kind == FrameRule::kFpIndirect) {
    frame = {plain_address(word_at(return_at)), cfa, word_at(frame.fp)};
    return true;
  }
  const bool restores_fp = rule.fp_offset != 0;
  if (restores_fp && !stack.may_read(fp_at)) return false;
  remember(step, frame, cfa, return_at, restores_fp ? fp_at : 0);
  frame = {plain_address(word_at(return_at)), cfa, restores_fp ? word_at(fp_at) : frame.fp};
  return true;
}

// Whether the frame at a remembered step's stack pointer now has another rule.
[[gnu::always_inline]] inline bool has_other_rule(Step& step, std::uint64_t pc) {
  if (__builtin_expect(pc == step.pc, 1)) return false;
  if (frame_rule_word::load(pc) != (frame_rule_word::tag_of(pc) << 30 | step.rule)) return true;
  step.pc = pc;  // another address in the same function
  return false;
}

// Like step_by_rule(), for a frame with the stack pointer of a remembered step: uses the step if the rule is
// also the same.
[[gnu::always_inline]] inline bool step_from(Step& step, StackReader& stack, CallFrame& frame) {
  if (__builtin_expect(has_other_rule(step, frame.pc) || (frame.fp != step.fp && counts_from_fp(step.rule)),
                       0)) {
    CallFrame next = frame;  // a copy, so that `frame` may stay in registers
    const bool goes_on = step_by_rule(stack, next, step);
    frame = next;
    return goes_on;
  }
  frame.pc = plain_address(word_at(frame.sp + step.to_return));
  if (step.to_fp != WalkHistory::kSameFp) frame.fp = word_at(frame.sp + step.to_fp);
  frame.sp += step.to_caller;
  return true;
}

}  // namespace

void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, WalkHistory& history,
                       StackTrace& result) {
  StackReader stack{readable_from(start.sp, bounds)};
  const bool is_own_stack = stack.bounds.high == bounds.high;
  const std::uint64_t epoch = stack_epoch.load(std::memory_order_relaxed);
  if (!is_own_stack || history.epoch != epoch) history.count = 0;
  history.epoch = epoch;
  Step* const steps = history.steps;
  std::uint32_t fresh_count = 0;
  std::uint32_t known = history.count;  // steps[0, known) are of the last walk, at or above the frame
  StackTrace trace = result;            // a copy that stays in registers
  CallFrame frame = start;
  bool goes_on = frame.pc >= kLowestCode;
  while (goes_on) {
    while (known > 0 && steps[known - 1].sp < frame.sp) --known;
    if (known == 0 || steps[known - 1].sp != frame.sp) {
      trace.add(frame.pc);
      CallFrame next = frame;
      goes_on = step_by_rule(stack, next, history.fresh[fresh_count++]);
      frame = next;
      goes_on = goes_on && frame.pc >= kLowestCode && !trace.is_full();
      continue;
    }
    // Follow the last walk as long as the stack pointers agree.
    std::uint32_t at = known;
    do {
      --at;
      trace.add(frame.pc);
      goes_on = step_from(steps[at], stack, frame) && frame.pc >= kLowestCode && !trace.is_full();
    } while (goes_on && at > 0 && steps[at - 1].sp == frame.sp);
    if (!goes_on || at == 0) break;
    // The walks diverge here, and may converge again further out.
    while (known > at) history.fresh[fresh_count++] = steps[--known];
  }
  // Beyond the outermost remembered frame: the last walk was cut at the maximum depth.
  Step unremembered;
  while (goes_on) {
    trace.add(frame.pc);
    CallFrame next = frame;
    goes_on = step_by_rule(stack, next, unremembered);
    frame = next;
    goes_on = goes_on && frame.pc >= kLowestCode && !trace.is_full();
  }
  result = trace;
  if (!is_own_stack) return;
  if (known + fresh_count > recording::kMaxFrames) known = 0;
  for (std::uint32_t i = 0; i < fresh_count; ++i) steps[known + i] = history.fresh[fresh_count - 1 - i];
  history.count = known + fresh_count;
}

bool may_be_in_signal_handler(const CallFrame& start, const StackBounds& bounds) {
  if (start.sp < bounds.low || start.sp >= bounds.high) return true;
  StackReader stack{readable_from(start.sp, bounds)};
  CallFrame frame = start;
  Step unremembered;
  while (frame.pc >= kLowestCode) {  // terminates: each step is further out
    if (rule_at(frame.pc).kind == FrameRule::kSignal) return true;
    if (!step_by_rule(stack, frame, unremembered)) break;
  }
  return false;
}

std::atomic<std::uint64_t> frame_rule_words[1 << kRuleIndexBits];

std::uint64_t frame_rule_word::pack(std::uint64_t pc, const FrameRule& rule) {
  std::uint64_t saved = 0;
#if defined(__aarch64__)
  if (rule.kind == FrameRule::kSp || rule.kind == FrameRule::kFp) {
    const bool pair = rule.fp_offset == rule.return_offset + 8;
    if (!pair && rule.fp_offset != 0) return 0;
    if (!pair || rule.fp_offset != rule.cfa_offset) {
      saved = rule.return_offset / 8 * 2 + (pair ? 1 : 0);
      if (rule.return_offset % 8 != 0 || saved > 0xff) return 0;
    }
  }
#else
  if (rule.fp_offset % 8 != 0 || rule.fp_offset / 8 > 0xff || rule.return_offset != 8) return 0;
  saved = rule.fp_offset / 8;
#endif
  if (rule.cfa_offset % 8 != 0 || rule.cfa_offset / 8 > 0x7ffff || pc >> 48 != 0) return 0;
  return tag_of(pc) << 30 | std::uint64_t{rule.kind} << 27 | std::uint64_t{rule.cfa_offset / 8} << 8 | saved;
}

[[gnu::noinline]] FrameRule learn_frame_rule(std::uint64_t pc) {
  note_code_address(pc);
  const FrameRule rule = find_frame_rule(pc);
  if (const std::uint64_t word = frame_rule_word::pack(pc, rule); word != 0)
    frame_rule_words[frame_rule_word::index_of(pc)].store(word, std::memory_order_relaxed);
  return rule;
}

void forget_frame_rules() {
  for (auto& word : frame_rule_words) word.store(0, std::memory_order_relaxed);
}

// The words may now be in other frames, in padding, or in memory that another thread writes, which sanitizers
// would report. If so, their values differ from the kept ones.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool KnownWalks::reads_the_same(const Walk& walk) {
  std::uint64_t differing = 0;
  for (std::uint32_t i = 0; i < walk.word_count_; ++i)
    differing |= *reinterpret_cast<const std::uint64_t*>(walk.sp_ + walk.offsets_[i]) ^ walk.words_[i];
  return differing == 0;
}

KnownWalks::Walk* KnownWalks::keep(const CallFrame& start, const StackBounds& bounds,
                                   const WalkHistory& history, const StackTrace& trace) {
  // the stack of a coroutine or a signal handler
  if (start.sp < bounds.low || start.sp >= bounds.high) return nullptr;
  Walk& walk = walks_[index_of(start)];
  const bool is_second = starts_at(walk, start);
  walk.pc_ = start.pc;
  walk.sp_ = start.sp;
  walk.era_ = era_;
  walk.segment = walk.count_ = 0;
  // The history may extend further out than this walk, and lacks steps that it had no space for.
  if (!is_second || trace.count > kMostFrames || history.count < trace.count ||
      !fill(walk, start, history, trace))
    return nullptr;
  walk.fp_ = start.fp;
  walk.hash_ = trace.hash;
  for (std::uint32_t i = 0; i < trace.count; ++i) walk.frames_[i] = trace.frames[i];
  walk.count_ = trace.count;
  return &walk;
}

// Collects the words that the walk read. Returns false if not all of them are known.
bool KnownWalks::fill(Walk& walk, const CallFrame& start, const WalkHistory& history,
                      const StackTrace& trace) {
  walk.word_count_ = 0;
  const auto add = [&](std::uint64_t address) {
    const std::uint64_t offset = address - start.sp;
    if (walk.word_count_ == Walk::kMostWords || offset >= WalkHistory::kSameFp) return false;
    walk.offsets_[walk.word_count_] = static_cast<std::uint32_t>(offset);
    walk.words_[walk.word_count_++] = *reinterpret_cast<const std::uint64_t*>(address);
    return true;
  };
  walk.depends_on_fp_ = false;
  std::uint64_t fp_at = 0;  // where the frame pointer was read; 0: it is the start's
  for (std::uint32_t i = 0; i < trace.count; ++i) {
    const WalkHistory::Step& step = history.steps[history.count - 1 - i];
    if (step.rule == WalkHistory::kNoRule)  // allowed only if this frame has no caller
      return i == trace.count - 1 && rule_at(trace.frames[i]).kind == FrameRule::kOutermost;
    if (frame_rule_word::kind_of(step.rule) == FrameRule::kFp) {
      if (fp_at == 0)
        walk.depends_on_fp_ = true;
      else if (!add(fp_at))
        return false;
    }
    if (!add(step.sp + step.to_return)) return false;
    if (step.to_fp != WalkHistory::kSameFp) fp_at = step.sp + step.to_fp;
  }
  return true;
}

}  // namespace headroom::preload
