#include "preload/known_walks.h"

#include "preload/frame_rules.h"

namespace headroom::preload {

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
