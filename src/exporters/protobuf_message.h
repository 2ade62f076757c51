// Encodes one protobuf message (https://protobuf.dev/programming-guides/encoding), with fields in the order
// of the calls. Enough for the export formats, without generated code.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headroom::exporters {

class ProtobufMessage {
 public:
  // int32 … uint64, bool and enum. Negative values take ten bytes, as the format requires.
  void integer(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
  }
  void integer(std::uint32_t field, std::int64_t value) { integer(field, static_cast<std::uint64_t>(value)); }
  void integer(std::uint32_t field, int value) { integer(field, static_cast<std::int64_t>(value)); }
  void integer(std::uint32_t field, std::uint32_t value) { integer(field, std::uint64_t{value}); }
  // string and bytes.
  void text(std::uint32_t field, std::string_view value) {
    varint(std::uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const ProtobufMessage& value) { text(field, value.bytes_); }
  // A packed repeated integer field.
  template <class Values>
  void packed(std::uint32_t field, const Values& values) {
    ProtobufMessage content;
    for (const auto value : values) content.varint(static_cast<std::uint64_t>(value));
    message(field, content);
  }

  const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// protobuf strings must be UTF-8, but file and function names may be invalid: invalid bytes become U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace headroom::exporters
