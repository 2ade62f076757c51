// Computes the rule that leads from a return address to the caller's frame, from the module's unwind
// information: .eh_frame, through the search table in .eh_frame_hdr. The DWARF call frame instructions are a
// small program that describes a function's frame. It is run up to one address. Only what a FrameRule can
// express is kept; everything else becomes kUnknown.

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "preload/loaded_objects.h"
#include "preload/modules.h"
#include "preload/process.h"
#include "preload/stack_walk.h"

namespace headroom::preload {
namespace {

// Pointer encodings (DW_EH_PE_*): the low four bits give the size, the next three the base.
constexpr std::uint8_t kOmitted = 0xff, kFormatMask = 0x0f, kBaseMask = 0x70, kIndirect = 0x80;
constexpr std::uint8_t kPcRelative = 0x10, kDataRelative = 0x30, kSigned4 = 0x0b;

// Reads DWARF data. Past the end it returns zeros.
struct Reader {
  const std::uint8_t* at;
  const std::uint8_t* end;

  template <class Value>
  Value take() {
    Value value{};
    if (end - at >= static_cast<std::ptrdiff_t>(sizeof value)) {
      std::memcpy(&value, at, sizeof value);
      at += sizeof value;
    } else {
      at = end;
    }
    return value;
  }
  std::uint64_t take_uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at < end; shift += 7) {
      const std::uint8_t byte = *at++;
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  std::int64_t take_sleb() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0x80;
    while (at < end && byte >= 0x80) {
      byte = *at++;
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    }
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  std::uint64_t take_pointer(std::uint8_t encoding) {
    if (encoding == kOmitted) return 0;
    const auto here = reinterpret_cast<std::uint64_t>(at);
    const std::uint64_t value = take_formatted(encoding & kFormatMask);
    return (encoding & kBaseMask) == kPcRelative ? value + here : value;
  }
  std::uint64_t take_formatted(int format) {
    switch (format) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return take<std::uint64_t>();
      case 0x01:
        return take_uleb();
      case 0x02:
        return take<std::uint16_t>();
      case 0x03:
        return take<std::uint32_t>();
      case 0x09:
        return static_cast<std::uint64_t>(take_sleb());
      case 0x0a:
        return static_cast<std::uint64_t>(std::int64_t{take<std::int16_t>()});
      case 0x0b:
        return static_cast<std::uint64_t>(std::int64_t{take<std::int32_t>()});
      default:
        at = end;
        return 0;
    }
  }
};

// The unwind entry of one function.
struct FrameEntry {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = -8;
  std::uint64_t return_register = 0;
  std::uint8_t pointer_encoding = 0;
  bool is_signal_frame = false;
  std::uint64_t begin = 0, end = 0;  // address range of the function
  Reader common{nullptr, nullptr};   // instructions that all functions of this kind share
  Reader own{nullptr, nullptr};      // instructions of this function
};

// --- the module's search table

struct SearchHit {
  const std::uint8_t* header = nullptr;  // .eh_frame_hdr
  std::uint64_t pc = 0;
};

int find_eh_frame(dl_phdr_info* info, std::size_t, void* data) {
  auto& hit = *static_cast<SearchHit*>(data);
  if (!contains_address(*info, hit.pc)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
      hit.header = reinterpret_cast<const std::uint8_t*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  return 1;
}

const std::uint8_t* search_table_of(std::uint64_t pc) {
  if (has_find_object()) {
    FoundObject found{};
    return find_object(pc, found) ? static_cast<std::uint8_t*>(found.eh_frame_header) : nullptr;
  }
  if (is_forked_child()) return known_frame_header(pc);
  SearchHit hit{nullptr, pc};
  ::dl_iterate_phdr(find_eh_frame, &hit);
  return hit.header;
}

// The table is sorted pairs of 32-bit offsets from its section: {function, its entry}.
const std::uint8_t* entry_of(const std::uint8_t* header, std::uint64_t pc) {
  constexpr std::uint8_t kVersion = 1, kSortedTable = kDataRelative | kSigned4;
  if (header[0] != kVersion || header[3] != kSortedTable) return nullptr;
  Reader reader{header + 4, header + 64};
  reader.take_pointer(header[1]);
  const std::uint64_t count = reader.take_pointer(header[2]);
  struct TableRow {
    std::int32_t function, entry;
  };
  const std::uint8_t* const rows = reader.at;
  const auto row_at = [rows](std::uint64_t index) {
    TableRow row;
    std::memcpy(&row, rows + index * sizeof row, sizeof row);
    return row;
  };
  const std::int64_t wanted =
      static_cast<std::int64_t>(pc) - static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(header));
  // [low, high) contains the last row whose function is not above `wanted`
  std::uint64_t low = 0, high = count;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (row_at(middle).function <= wanted ? low : high) = middle;
  }
  if (count == 0 || row_at(low).function > wanted) return nullptr;
  return header + row_at(low).entry;
}

// --- entries

Reader entry_at(const std::uint8_t* at, const std::uint8_t*& id_at) {
  Reader reader{at, at + 16};
  std::uint64_t length = reader.take<std::uint32_t>();
  if (length == 0xffffffff) length = reader.take<std::uint64_t>();
  id_at = reader.at;
  reader.end = reader.at + length;
  return reader;
}

bool read_common_entry(const std::uint8_t* at, FrameEntry& entry) {
  const std::uint8_t* id_at = nullptr;
  Reader reader = entry_at(at, id_at);
  if (reader.take<std::uint32_t>() != 0) return false;
  const auto version = reader.take<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* augmentation = reinterpret_cast<const char*>(reader.at);
  reader.at += std::strlen(augmentation) + 1;
  entry.code_alignment = reader.take_uleb();
  entry.data_alignment = reader.take_sleb();
  entry.return_register = version == 1 ? reader.take<std::uint8_t>() : reader.take_uleb();
  if (*augmentation == 'z') {
    const std::uint64_t bytes = reader.take_uleb();
    const std::uint8_t* const after = reader.at + bytes;
    for (const char* letter = augmentation + 1; *letter != 0; ++letter) {
      if (*letter == 'R') entry.pointer_encoding = reader.take<std::uint8_t>();
      if (*letter == 'L') reader.take<std::uint8_t>();
      if (*letter == 'P') {
        const auto encoding = reader.take<std::uint8_t>();
        reader.take_pointer(encoding & ~kIndirect);
      }
      if (*letter == 'S') entry.is_signal_frame = true;
    }
    reader.at = after;
  } else if (*augmentation != 0) {
    return false;
  }
  entry.common = reader;
  return true;
}

bool read_entry(const std::uint8_t* at, FrameEntry& entry) {
  const std::uint8_t* id_at = nullptr;
  Reader reader = entry_at(at, id_at);
  const auto distance = reader.take<std::uint32_t>();
  if (distance == 0 || !read_common_entry(id_at - distance, entry)) return false;
  entry.begin = reader.take_pointer(entry.pointer_encoding);
  entry.end = entry.begin + reader.take_pointer(entry.pointer_encoding & kFormatMask);
  reader.at += reader.take_uleb();  // augmentation data; every compiler writes its size ('z')
  entry.own = reader;
  return true;
}

// Finds the entry of the function that contains this address. Returns false if there is none or it is
// malformed.
bool find_frame_entry(std::uint64_t pc, FrameEntry& entry) {
  const std::uint8_t* const header = search_table_of(pc);
  if (header == nullptr) return false;
  const std::uint8_t* const at = entry_of(header, pc);
  return at != nullptr && read_entry(at, entry) && pc >= entry.begin && pc < entry.end;
}

// --- call frame instructions

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
  void restore(Row& row, std::uint64_t reg) const {
    set(row, reg, reg == kFpRegister ? initial_.fp : initial_.return_address);
  }
  // `factor`: the offset from the CFA in units of the data alignment.
  Saved in_frame(std::int64_t factor) const { return {Saved::in_frame, factor * entry_.data_alignment}; }
  std::int64_t take_cfa_offset(Reader& code, bool is_factored) const {
    return is_factored ? code.take_sleb() * entry_.data_alignment
                       : static_cast<std::int64_t>(code.take_uleb());
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
        set(row, low, in_frame(static_cast<std::int64_t>(code.take_uleb())));
        continue;
      case 0xc0:
        restore(row, low);
        continue;
      default:
        break;
    }
    switch (op) {
      case 0x00:  // nop
      case 0x2d:  // AArch64: toggles whether the return address is signed
        break;
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
      case 0x05:    // offset_extended
      case 0x11: {  // offset_extended_sf
        const std::uint64_t reg = code.take_uleb();
        set(row, reg, in_frame(op == 0x05 ? static_cast<std::int64_t>(code.take_uleb()) : code.take_sleb()));
        break;
      }
      case 0x06:  // restore_extended
        restore(row, code.take_uleb());
        break;
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
      case 0x12:  // def_cfa_sf
        row.cfa = Row::from_register;
        row.cfa_register = code.take_uleb();
        row.cfa_offset = take_cfa_offset(code, op == 0x12);
        break;
      case 0x0d:
        row.cfa_register = code.take_uleb();
        break;
      case 0x0e:  // def_cfa_offset
      case 0x13:  // def_cfa_offset_sf
        row.cfa_offset = take_cfa_offset(code, op == 0x13);
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
      case 0x14:  // val_offset
        set(row, code.take_uleb(), {Saved::elsewhere, 0});
        code.take_uleb();
        break;
      case 0x16: {  // val_expression
        const std::uint64_t reg = code.take_uleb(), bytes = code.take_uleb();
        set(row, reg, {Saved::elsewhere, 0});
        code.at += bytes;
        break;
      }
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
