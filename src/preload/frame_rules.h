// The rules that lead from a return address to the caller's frame, cached per address.
//
// Most code of distributions keeps no frame pointers. Instead, .eh_frame describes each function's frame by a
// small program. Running it takes about a microsecond, so its result is cached: one 64-bit word an address,
// in one table for all threads. A word is read and written whole, so no lock is needed. A stack of ten frames
// costs ten loads more than with frame pointers. The table is direct mapped and has 32768 words (256 KiB);
// addresses with the same index evict each other.
#pragma once

#include <atomic>
#include <cstdint>

namespace headroom::preload {

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

// Computes the rule from the module's unwind information (call_frame_info.cpp).
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

}  // namespace headroom::preload
