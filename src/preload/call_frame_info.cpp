// Interprets DWARF call frame instructions: the small program in .eh_frame that describes a function's frame,
// run up to one address. Keeps only what a FrameRule can express; everything else becomes kUnknown.
#include "preload/eh_frame.h"
#include "preload/frame_rules.h"

namespace headroom::preload {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kSpRegister = 7, kFpRegister = 6;
#else
constexpr std::uint64_t kSpRegister = 31, kFpRegister = 29;
#endif

// Where the caller's value of a register is.
struct Saved {
  enum Place : std::uint8_t { unchanged, in_frame, at_fp, undefined, elsewhere } place = unchanged;
  std::int64_t offset = 0;  // for in_frame: offset from the CFA
};
struct Row {
  enum Cfa : std::uint8_t { from_register, stored_near_fp, elsewhere } cfa = from_register;
  std::uint64_t cfa_register = kSpRegister;
  std::int64_t cfa_offset = 0;
  Saved fp, return_address;
};

class Program {
 public:
  Program(const FrameEntry& entry, std::uint64_t pc) : entry_(entry), location_(entry.begin), pc_(pc) {}

  // Returns false at an unknown instruction.
  bool run(Row& row) {
    if (!run(entry_.common, row)) return false;
    initial_ = row;
    return run(entry_.own, row);
  }

 private:
  bool run(Reader code, Row& row);
  Saved* saved(Row& row, std::uint64_t reg) const {
    if (reg == kFpRegister) return &row.fp;
    if (reg == entry_.return_register) return &row.return_address;
    return nullptr;
  }
  void set(Row& row, std::uint64_t reg, Saved value) const {
    if (Saved* place = saved(row, reg)) *place = value;
  }
  void advance(std::uint64_t delta) { location_ += delta * entry_.code_alignment; }
  static void set_cfa_expression(Row& row, Reader expression);
  static Saved saved_by_expression(Reader expression);

  const FrameEntry& entry_;
  std::uint64_t location_, pc_;
  Row initial_;
  Row remembered_[8];
  unsigned depth_ = 0;
};

constexpr std::uint8_t kValueOfFp = 0x70 + kFpRegister;  // DW_OP_breg6, DW_OP_breg29
constexpr std::uint8_t kDereference = 0x06;              // DW_OP_deref

// Accepts only "the word at fp + n": functions that align their stack describe their CFA this way.
void Program::set_cfa_expression(Row& row, Reader expression) {
  row.cfa = Row::elsewhere;
  if (expression.take<std::uint8_t>() != kValueOfFp) return;
  const std::int64_t offset = expression.take_sleb();
  if (expression.take<std::uint8_t>() != kDereference || expression.at != expression.end || offset > 0)
    return;
  row.cfa = Row::stored_near_fp;
  row.cfa_offset = -offset;
}

Saved Program::saved_by_expression(Reader expression) {
  if (expression.take<std::uint8_t>() == kValueOfFp && expression.take_sleb() == 0 &&
      expression.at == expression.end)
    return {Saved::at_fp, 0};
  return {Saved::elsewhere, 0};
}

bool Program::run(Reader code, Row& row) {
  while (code.at < code.end && location_ <= pc_) {
    const auto op = code.take<std::uint8_t>();
    const std::uint64_t low = op & 0x3f;
    switch (op & 0xc0) {
      case 0x40:
        advance(low);
        continue;
      case 0x80:
        set(row, low, {Saved::in_frame, static_cast<std::int64_t>(code.take_uleb()) * entry_.data_alignment});
        continue;
      case 0xc0:
        if (Saved* place = saved(row, low))
          *place = low == kFpRegister ? initial_.fp : initial_.return_address;
        continue;
      default:
        break;
    }
    switch (op) {
      case 0x00:
        break;  // nop
      case 0x01:
        location_ = code.take_pointer(entry_.pointer_encoding);
        break;
      case 0x02:
        advance(code.take<std::uint8_t>());
        break;
      case 0x03:
        advance(code.take<std::uint16_t>());
        break;
      case 0x04:
        advance(code.take<std::uint32_t>());
        break;
      case 0x05: {  // offset_extended
        const std::uint64_t reg = code.take_uleb();
        set(row, reg, {Saved::in_frame, static_cast<std::int64_t>(code.take_uleb()) * entry_.data_alignment});
        break;
      }
      case 0x06: {  // restore_extended
        const std::uint64_t reg = code.take_uleb();
        if (Saved* place = saved(row, reg))
          *place = reg == kFpRegister ? initial_.fp : initial_.return_address;
        break;
      }
      case 0x07:
        set(row, code.take_uleb(), {Saved::undefined, 0});
        break;
      case 0x08:
        set(row, code.take_uleb(), {Saved::unchanged, 0});
        break;
      case 0x09: {  // register
        const std::uint64_t reg = code.take_uleb();
        code.take_uleb();
        set(row, reg, {Saved::elsewhere, 0});
        break;
      }
      case 0x0a:
        if (depth_ == sizeof remembered_ / sizeof remembered_[0]) return false;
        remembered_[depth_++] = row;
        break;
      case 0x0b:
        if (depth_ == 0) return false;
        row = remembered_[--depth_];
        break;
      case 0x0c:  // def_cfa
        row.cfa = Row::from_register;
        row.cfa_register = code.take_uleb();
        row.cfa_offset = static_cast<std::int64_t>(code.take_uleb());
        break;
      case 0x0d:
        row.cfa_register = code.take_uleb();
        break;
      case 0x0e:
        row.cfa_offset = static_cast<std::int64_t>(code.take_uleb());
        break;
      case 0x0f: {  // def_cfa_expression
        const std::uint64_t bytes = code.take_uleb();
        set_cfa_expression(row, {code.at, code.at + bytes});
        code.at += bytes;
        break;
      }
      case 0x10: {  // expression
        const std::uint64_t reg = code.take_uleb(), bytes = code.take_uleb();
        set(row, reg, saved_by_expression({code.at, code.at + bytes}));
        code.at += bytes;
        break;
      }
      case 0x11: {  // offset_extended_sf
        const std::uint64_t reg = code.take_uleb();
        set(row, reg, {Saved::in_frame, code.take_sleb() * entry_.data_alignment});
        break;
      }
      case 0x12:  // def_cfa_sf
        row.cfa = Row::from_register;
        row.cfa_register = code.take_uleb();
        row.cfa_offset = code.take_sleb() * entry_.data_alignment;
        break;
      case 0x13:
        row.cfa_offset = code.take_sleb() * entry_.data_alignment;
        break;
      case 0x14: {  // val_offset
        set(row, code.take_uleb(), {Saved::elsewhere, 0});
        code.take_uleb();
        break;
      }
      case 0x16: {  // val_expression
        const std::uint64_t reg = code.take_uleb(), bytes = code.take_uleb();
        set(row, reg, {Saved::elsewhere, 0});
        code.at += bytes;
        break;
      }
      case 0x2d:
        break;  // AArch64: toggles whether the return address is signed
      case 0x2e:
        code.take_uleb();
        break;  // GNU_args_size
      default:
        return false;
    }
  }
  return true;
}

constexpr std::int64_t kMostOffset = 1 << 30;

FrameRule rule_of(const Row& row) {
  FrameRule rule;
  if (row.return_address.place == Saved::undefined) return {FrameRule::kOutermost};
  if (row.return_address.place != Saved::in_frame) return rule;
  if (row.return_address.offset >= 0 || row.return_address.offset < -kMostOffset) return rule;
  rule.return_offset = static_cast<std::uint32_t>(-row.return_address.offset);
  if (row.fp.place == Saved::in_frame) {
    if (row.fp.offset >= 0 || row.fp.offset < -kMostOffset) return rule;
    rule.fp_offset = static_cast<std::uint32_t>(-row.fp.offset);
  }
  if (row.cfa_offset < 0 || row.cfa_offset > kMostOffset) return rule;
  rule.cfa_offset = static_cast<std::uint32_t>(row.cfa_offset);
  if (row.cfa == Row::stored_near_fp && row.fp.place == Saved::at_fp) {
    rule.kind = FrameRule::kFpIndirect;
    rule.fp_offset = 8;  // it is saved; the kind tells where
  } else if (row.cfa == Row::from_register && row.cfa_register == kSpRegister) {
    rule.kind = FrameRule::kSp;
  } else if (row.cfa == Row::from_register && row.cfa_register == kFpRegister) {
    rule.kind = FrameRule::kFp;
  }
  return rule;
}

}  // namespace

FrameRule find_frame_rule(std::uint64_t pc) {
  // A call that never returns may be a function's last instruction; then the return address is the next
  // function's first byte.
  const std::uint64_t inside = pc - 1;
  FrameEntry entry;
  if (!find_frame_entry(inside, entry)) return {};
  if (entry.is_signal_frame) return {FrameRule::kSignal};
  Row row;
  if (!Program(entry, inside).run(row)) return {};
  return rule_of(row);
}

}  // namespace headroom::preload
