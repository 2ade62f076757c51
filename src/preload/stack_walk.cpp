#include "preload/stack_walk.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>

#include "preload/modules.h"
#include "preload/process.h"
#include "recording/format.h"

// Where the main thread's stack begins, defined by the dynamic linker.
extern "C" void* __libc_stack_end __attribute__((weak));

namespace headroom::preload {

std::atomic<std::uint64_t> stack_epoch{0};

namespace {
constexpr std::uint64_t inverse_of(std::uint64_t odd) {
  std::uint64_t inverse = odd;  // right in three bits; each step doubles them
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}
constexpr HashPowers all_powers() {
  HashPowers powers{};
  std::uint64_t up = 1, down = 1;
  for (std::uint32_t i = 0; i < kMostWalked; ++i) {
    powers.up[i] = up;
    powers.down[i] = down;
    up *= kHashFactor;
    down *= inverse_of(kHashFactor);
  }
  return powers;
}
}  // namespace

constinit const HashPowers hash_powers = all_powers();

void StackTrace::complete() {
  for (; outer_end > outer_begin; --outer_end) frames[count++] = outer->frames[outer_end - 1].pc;
}

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

// Moves to the caller by the rule of the frame's address, and notes in `step` what it read. Returns false if
// there is no caller or the chain is implausible. `is_sure` becomes false if that depends on a word of the
// stack that is not noted.
[[gnu::noinline]] bool step_by_rule(StackReader& stack, CallFrame& frame, Step& step, bool& is_sure) {
  const FrameRule rule = rule_at(frame.pc);
  step = {frame.pc, frame.sp, frame.fp, 0, 0, 0, false};
  std::uint64_t cfa = 0;
  switch (rule.kind) {
    case FrameRule::kSp:
      cfa = frame.sp + rule.cfa_offset;
      break;
    case FrameRule::kFp:
      step.uses_fp = true;
      cfa = frame.fp + rule.cfa_offset;
      break;
    // a function that aligned its stack: the CFA was saved near its frame pointer
    case FrameRule::kFpIndirect: {
      step.uses_fp = true;
      const std::uint64_t stored = frame.fp - rule.cfa_offset;
      if (stored < frame.sp || !stack.may_read(stored) || !stack.may_read(frame.fp)) return false;
      cfa = word_at(stored);
      step.cfa_at = stored;
      break;
    }
    case FrameRule::kSignal:
      is_sure = false;
      return step_over_signal(stack, frame);
    case FrameRule::kUnknown:
      step.uses_fp = true;
      if (!step_by_frame_pointer(stack, frame)) return false;
      step.fp_at = step.fp;
      step.return_at = step.fp + kWord;
      return true;
    case FrameRule::kOutermost:
      return false;
  }
  const std::uint64_t return_at = cfa - rule.return_offset;
  std::uint64_t fp_at = rule.fp_offset != 0 ? cfa - rule.fp_offset : 0;
  if (rule.kind == FrameRule::kFpIndirect) fp_at = frame.fp;
  if (cfa <= frame.sp || cfa > stack.bounds.high || !stack.may_read(return_at) ||
      (fp_at != 0 && !stack.may_read(fp_at))) {
    if (rule.kind == FrameRule::kFpIndirect) is_sure = false;
    return false;
  }
  step.return_at = return_at;
  step.fp_at = fp_at;
  frame = {plain_address(word_at(return_at)), cfa, fp_at != 0 ? word_at(fp_at) : frame.fp};
  return true;
}

}  // namespace

// The words may now be in other frames, in padding, or in memory that another thread writes, which sanitizers
// would report. If so, their values differ from the kept ones.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] std::uint32_t WalkHistory::joinable(
    std::uint64_t sp) const {
  if (count == 0) return 0;
  const auto differs = [this](std::uint32_t check) __attribute__((no_sanitize("address", "thread"))) {
    return *reinterpret_cast<const std::uint64_t*>(checks[check].at) ^ checks[check].word;
  };
  const std::uint32_t end = frames[count - 1].checks_end;
  std::uint32_t i = 0;
  while (i + 4 <= end && reached[i + 3] >= sp &&
         (differs(i) | differs(i + 1) | differs(i + 2) | differs(i + 3)) == 0)
    i += 4;
  while (i < end && checks[i].at >= sp && differs(i) == 0) ++i;
  return i == end ? count : owners[i];
}

// To remember a frame costs as much as to walk it twice or three times.
bool WalkHistory::is_worth_remembering(std::uint32_t outer, std::uint32_t fresh) {
  constexpr std::uint32_t kCost = 2, kLongestPause = 255;
  if (left_to_pause > 0) {
    --left_to_pause;
    return false;
  }
  pause = gained >= kCost * remembered ? pause / 2 : std::min(2 * pause + 1, kLongestPause);
  left_to_pause = pause;
  kept = outer;
  remembered = fresh;
  gained = 0;
  return true;
}

void WalkHistory::replace(std::uint32_t outer, const Step* steps, std::uint32_t fresh) {
  if (outer + fresh > kMostWalked) {  // the next walk begins anew
    count = 0;
    return;
  }
  std::uint32_t check = outer > 0 ? frames[outer - 1].checks_end : 0;
  bool depends_on_fp = outer > 0 && frames[outer - 1].depends_on_fp != 0;
  std::uint64_t sum = outer > 0 ? sums[outer] : 0;
  sums[0] = 0;
  for (std::uint32_t i = outer, left = fresh; left-- > 0; ++i) {
    const Step& step = steps[left];
    const auto add = [&](std::uint64_t at) {
      owners[check] = i;
      reached[check] = check > 0 && reached[check - 1] < at ? reached[check - 1] : at;
      checks[check++] = {at, word_at(at)};
    };
    if (step.return_at != 0) add(step.return_at);
    if (step.fp_at != 0 && depends_on_fp) add(step.fp_at);
    if (step.cfa_at != 0) add(step.cfa_at);
    depends_on_fp = step.uses_fp || (depends_on_fp && step.fp_at == 0);
    frames[i] = {step.pc, step.sp, step.fp, check, depends_on_fp ? 1u : 0u};
    sum += step.pc * hash_powers.up[i];
    sums[i + 1] = sum;
  }
  count = outer + fresh;
}

namespace {

constexpr std::uint32_t kMostRecorded = recording::kMaxFrames;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

// Which known frame a walk may join, as its number of frames from the outermost one.
struct Join {
  std::uint32_t frames;
  bool is_here;
  std::uint64_t at(const WalkHistory& history) const {
    return frames > 0 ? history.frames[frames - 1].sp : kNowhere;
  }
};

// Most joins, without a call: the frames are the same, and no word of them is located by the frame pointer.
[[gnu::always_inline]] inline bool is_simple_join(const WalkHistory& history, std::uint32_t joinable,
                                                  std::uint64_t pc, std::uint64_t sp) {
  const WalkHistory::Frame& known = history.frames[joinable - 1];
  return known.sp == sp && known.pc == pc && known.depends_on_fp == 0 && !history.is_cut;
}

[[gnu::noinline]] Join join_at(const WalkHistory& history, std::uint32_t joinable, const CallFrame& frame,
                               std::uint32_t walked) {
  while (joinable > 0 && history.frames[joinable - 1].sp < frame.sp) --joinable;
  if (joinable == 0 || history.frames[joinable - 1].sp != frame.sp) return {joinable, false};
  const WalkHistory::Frame& known = history.frames[joinable - 1];
  if (known.pc == frame.pc && (known.fp == frame.fp || known.depends_on_fp == 0) &&
      (!history.is_cut || walked + joinable >= kMostRecorded))
    return {joinable, true};
  return {joinable - 1, false};
}

// Repeats the first `count` steps of a walk to keep what they read in the history. A walk that joined no
// known frame goes on beyond the maximum depth, so that the history does not end where a shorter stack needs
// it.
[[gnu::noinline]] void remember(const CallFrame& start, StackReader& stack, WalkHistory& history,
                                const Join& join, std::uint32_t count) {
  constexpr std::uint32_t kMost = kMostRecorded * 3 / 2;
  Step steps[kMost];
  CallFrame frame = start;
  bool is_sure = true, goes_on = true;
  std::uint32_t walked = 0;
  while (goes_on && walked < (join.is_here ? count : kMost))
    goes_on = step_by_rule(stack, frame, steps[walked++], is_sure) && frame.pc >= kLowestCode;
  if (!is_sure) return;
  if (!join.is_here) history.is_cut = goes_on;
  history.replace(join.is_here ? join.frames : 0, steps, walked);
  history.walk_end = history.count;
}

// `pc`, `sp` and `fp` are separate variables, so that the compiler keeps them in general registers: each load
// of the chain waits for the one before. Returns where it joined the history.
[[gnu::always_inline]] inline Join walk(const CallFrame& start, StackReader& stack,
                                        const WalkHistory& history, std::uint32_t joinable,
                                        StackTrace& result) {
  std::uint64_t pc = start.pc, sp = start.sp, fp = start.fp;
  const std::uint64_t high = stack.bounds.high;
  Join join{joinable, false};
  std::uint64_t hash = 0, join_sp = join.at(history);
  std::uint64_t* const frames = result.frames;
  std::uint32_t count = 0;
  // The last rule. Functions that follow each other often have frames of the same layout. Whether they have
  // is a branch, which the processor predicts; then it loads the next return address while it still looks up
  // the rule.
  std::uint64_t last_rule = 0, cfa_offset = 0, return_offset = 0, lowest = 0;
  bool uses_fp = false, restores_fp = false;
  while (count < kMostRecorded) {
    if (sp >= join_sp) {
      if (is_simple_join(history, join.frames, pc, sp)) {
        join.is_here = true;
        break;
      }
      join = join_at(history, join.frames, {pc, sp, fp}, count);
      if (join.is_here) break;
      join_sp = join.at(history);
    }
    const std::uint64_t word = frame_rule_word::load(pc);
    if (frame_rule_word::is_frame_record_rule_of(word, pc)) {
      // Code with frame pointers. The places are constants, so the processor follows the chain of frame
      // pointers while it still looks up the rules.
      hash = hash * kHashFactor + pc;
      frames[count++] = pc;
      if (__builtin_expect(fp < sp || fp > high - 2 * kWord || fp % kWord != 0, 0)) break;
      pc = plain_address(word_at(fp + kWord));
      sp = fp + 2 * kWord;
      fp = word_at(fp);
      continue;
    }
    if (__builtin_expect(!frame_rule_word::is_simple_rule_of(word, pc), 0)) {
      if (pc < kLowestCode) break;
      hash = hash * kHashFactor + pc;
      frames[count++] = pc;
      CallFrame frame{pc, sp, fp};
      Step unused;
      bool is_sure = true;
      if (!step_by_rule(stack, frame, unused, is_sure)) break;
      pc = frame.pc;
      sp = frame.sp;
      fp = frame.fp;
      continue;
    }
    hash = hash * kHashFactor + pc;
    frames[count++] = pc;
    if (const std::uint64_t rule = word & ~frame_rule_word::kTagBits; rule != last_rule) {
      asm volatile("");  // see above
      last_rule = rule;
      uses_fp = frame_rule_word::uses_fp(word);
      restores_fp = frame_rule_word::restores_fp(word);
      cfa_offset = frame_rule_word::cfa_offset(word);
      return_offset = frame_rule_word::return_offset(word);
      lowest = frame_rule_word::lowest_offset(word);
    }
    const std::uint64_t cfa = (uses_fp ? fp : sp) + cfa_offset;
    if (__builtin_expect(cfa > high || cfa < sp || cfa - sp < lowest || cfa % kWord != 0, 0)) break;
    pc = plain_address(word_at(cfa - return_offset));
    const std::uint64_t saved_fp = word_at(cfa - lowest);
    fp = restores_fp ? saved_fp : fp;
    sp = cfa;
  }
  result.count = count;
  result.hash += hash;
  if (join.is_here && count < kMostRecorded) {
    const std::uint32_t outer = std::min(join.frames, kMostRecorded - count);
    result.outer = &history;
    result.outer_end = join.frames;
    result.outer_begin = join.frames - outer;
    result.hash += hash * (hash_powers.up[outer] - 1) + history.hash_of(result.outer_begin, join.frames);
  }
  return join;
}

}  // namespace

void walk_unwind_rules(const CallFrame& start, const StackBounds& bounds, WalkHistory& history,
                       StackTrace& trace, bool is_rare) {
  StackReader stack{readable_from(start.sp, bounds)};
  const bool is_own_stack = stack.bounds.high == bounds.high;
  const std::uint64_t epoch = stack_epoch.load(std::memory_order_relaxed);
  if (__builtin_expect(history.epoch != epoch, 0)) history.count = 0;
  history.epoch = epoch;
  const std::uint32_t joinable = is_own_stack ? history.joinable(start.sp) : 0;
  if (start.sp % kWord != 0) return;
  const Join join = walk(start, stack, history, joinable, trace);
  const std::uint32_t kept = join.is_here ? join.frames : 0, fresh = trace.count;
  history.walk_end = fresh == 0 ? kept : 0;
  const bool is_again = start.pc == history.last_pc && start.sp == history.last_sp;
  history.last_pc = start.pc;
  history.last_sp = start.sp;
  if (kept > history.kept) history.gained += kept - history.kept;
  if (fresh == 0 || !is_own_stack) return;
  // A few innermost frames are remembered only if a walk starts at the same place again.
  constexpr std::uint32_t kFewFrames = 4;
  if (is_rare || ((fresh > kFewFrames || is_again) && history.is_worth_remembering(kept, fresh)))
    remember(start, stack, history, join, fresh);
}

bool may_be_in_signal_handler(const CallFrame& start, const StackBounds& bounds) {
  if (start.sp < bounds.low || start.sp >= bounds.high) return true;
  StackReader stack{readable_from(start.sp, bounds)};
  CallFrame frame = start;
  Step unremembered;
  bool is_sure = true;
  while (frame.pc >= kLowestCode) {  // terminates: each step is further out
    if (rule_at(frame.pc).kind == FrameRule::kSignal) return true;
    if (!step_by_rule(stack, frame, unremembered, is_sure)) break;
  }
  return false;
}

std::atomic<std::uint64_t> frame_rule_words[1 << kRuleIndexBits];

std::uint64_t frame_rule_word::pack(std::uint64_t pc, const FrameRule& rule) {
  std::uint64_t saved = 1;
#if defined(__aarch64__)
  if (rule.kind == FrameRule::kSp || rule.kind == FrameRule::kFp) {
    const bool pair = rule.fp_offset == rule.return_offset + 8;
    if (!pair && rule.fp_offset != 0) return 0;
    saved = pair && rule.fp_offset == rule.cfa_offset ? 0 : rule.return_offset / 8 * 2 + (pair ? 1 : 0);
    if (rule.return_offset % 8 != 0 || saved > 0xff) return 0;
  }
#else
  if (rule.fp_offset % 8 != 0 || rule.fp_offset / 8 > 0xff || rule.return_offset != 8) return 0;
  if (rule.fp_offset != 0) saved = rule.fp_offset / 8;
#endif
  if (rule.cfa_offset % 8 != 0 || rule.cfa_offset > kCfaOffsetBits || pc >> 48 != 0) return 0;
  const bool is_simple = rule.kind == FrameRule::kSp || rule.kind == FrameRule::kFp;
  return (is_simple ? tag_of(pc) : ~tag_of(pc) & kTagBits) | saved << kSavedAt | rule.cfa_offset | rule.kind;
}

[[gnu::noinline]] FrameRule learn_frame_rule(std::uint64_t pc) {
  note_code_address(pc);
  const FrameRule rule = find_frame_rule(pc);
  if (const std::uint64_t word = frame_rule_word::pack(pc, rule); word != 0)
    frame_rule_words[frame_rule_word::index_of(pc)].store(word, std::memory_order_relaxed);
  return rule;
}

void forget_frame_rules() {
  for (auto& word : frame_rule_words)  // pages that were never written must not come into being
    if (word.load(std::memory_order_relaxed) != 0) word.store(0, std::memory_order_relaxed);
}

// The words may now be in other frames, in padding, or in memory that another thread writes, which sanitizers
// would report. If so, their values differ from the kept ones.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool KnownWalks::reads_the_same(const Walk& walk) {
  const auto differs = [&walk](std::uint32_t i) __attribute__((no_sanitize("address", "thread"))) {
    return *reinterpret_cast<const std::uint64_t*>(walk.sp_ + walk.offsets_[i]) ^ walk.words_[i];
  };
  const std::uint32_t count = walk.word_count_;
  std::uint32_t i = 0;
  for (; i + 4 <= count; i += 4)
    if ((differs(i) | differs(i + 1) | differs(i + 2) | differs(i + 3)) != 0) return false;
  for (; i < count; ++i)
    if (differs(i) != 0) return false;
  return true;
}

bool KnownWalks::is_worth_keeping(const CallFrame& start) {
  if (unsearched_ > 0) return false;
  constexpr std::uint16_t kLongestPause = 255;
  Walk& walk = place_of(start);
  if (!starts_at(walk, start)) {
    offer(start);
    return false;
  }
  if (walk.left_ > 0) {
    --walk.left_;
    return false;
  }
  if (walk.count_ != 0)
    walk.pause_ = static_cast<std::uint16_t>(
        walk.found_ >= kEnough ? walk.pause_ / 2 : std::min<unsigned>(2 * walk.pause_ + 1, kLongestPause));
  walk.left_ = walk.pause_;
  walk.found_ = 0;
  return true;
}

// Replaces the neighbour that was found less often, unless that one was found often since the last offer.
void KnownWalks::offer(const CallFrame& start) {
  Walk& first = walks_[index_of(start)];
  Walk& second = walks_[index_of(start) ^ 1];
  const auto use_of = [this](const Walk& walk) {
    return walk.era_ == era_ && walk.count_ != 0 ? walk.found_ : 0;
  };
  Walk& walk = use_of(first) <= use_of(second) ? first : second;
  if (use_of(walk) >= kEnough)
    walk.found_ = 0;
  else
    mark(walk, start);
}

void KnownWalks::mark(Walk& walk, const CallFrame& start) const {
  walk.pc_ = start.pc;
  walk.sp_ = start.sp;
  walk.era_ = era_;
  walk.segment = walk.count_ = 0;
  walk.found_ = walk.pause_ = walk.left_ = 0;
}

KnownWalks::Walk* KnownWalks::keep(const CallFrame& start, const WalkHistory& history,
                                   const StackTrace& trace) {
  // Not in the history: the stack of a coroutine or a signal handler, or a walk through a handler.
  if (history.walk_end == 0) return nullptr;
  Walk& walk = place_of(start);
  const bool is_second = starts_at(walk, start);
  if (!is_second) mark(walk, start);
  walk.segment = walk.count_ = 0;
  if (!is_second || trace.count > kMostFrames || history.walk_end != trace.count ||
      !fill(walk, start, history))
    return nullptr;
  walk.fp_ = start.fp;
  walk.hash_ = trace.hash;
  for (std::uint32_t i = 0; i < trace.count; ++i) walk.frames_[i] = trace.frames[i];
  walk.count_ = trace.count;
  return &walk;
}

// Copies the words that the walk read. Returns false if they are too many.
bool KnownWalks::fill(Walk& walk, const CallFrame& start, const WalkHistory& history) {
  const WalkHistory::Frame& innermost = history.frames[history.walk_end - 1];
  walk.depends_on_fp_ = innermost.depends_on_fp != 0;
  walk.word_count_ = innermost.checks_end;
  if (walk.word_count_ > Walk::kMostWords) return false;
  for (std::uint32_t i = 0; i < walk.word_count_; ++i) {
    const std::uint64_t offset = history.checks[i].at - start.sp;
    if (offset >> 32 != 0) return false;
    walk.offsets_[i] = static_cast<std::uint32_t>(offset);
    walk.words_[i] = history.checks[i].word;
  }
  return true;
}

}  // namespace headroom::preload
