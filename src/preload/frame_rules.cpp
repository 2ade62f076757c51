#include "preload/frame_rules.h"

#include "preload/modules.h"

namespace headroom::preload {

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

}  // namespace headroom::preload
