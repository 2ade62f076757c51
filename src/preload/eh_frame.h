// Reads a module's unwind information: .eh_frame, through the search table in .eh_frame_hdr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace headroom::preload {

// Pointer encodings (DW_EH_PE_*): the low four bits give the size, the next three the base.
inline constexpr std::uint8_t kOmitted = 0xff, kFormatMask = 0x0f, kBaseMask = 0x70, kIndirect = 0x80;
inline constexpr std::uint8_t kPcRelative = 0x10, kDataRelative = 0x30, kSigned4 = 0x0b;

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
    std::uint64_t value = 0;
    switch (encoding & kFormatMask) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = take<std::uint64_t>();
        break;
      case 0x01:
        value = take_uleb();
        break;
      case 0x02:
        value = take<std::uint16_t>();
        break;
      case 0x03:
        value = take<std::uint32_t>();
        break;
      case 0x09:
        value = static_cast<std::uint64_t>(take_sleb());
        break;
      case 0x0a:
        value = static_cast<std::uint64_t>(std::int64_t{take<std::int16_t>()});
        break;
      case 0x0b:
        value = static_cast<std::uint64_t>(std::int64_t{take<std::int32_t>()});
        break;
      default:
        at = end;
    }
    return (encoding & kBaseMask) == kPcRelative ? value + here : value;
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

// Finds the entry of the function that contains this address. Returns false if there is none or it is
// malformed.
bool find_frame_entry(std::uint64_t pc, FrameEntry& entry);

}  // namespace headroom::preload
