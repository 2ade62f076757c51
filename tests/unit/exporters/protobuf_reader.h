// Reads protobuf without a schema, to check an exporter's output. Throws on invalid bytes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::exporters {

struct ProtobufField {
  std::uint32_t number = 0;
  std::uint64_t integer = 0;
  std::string bytes;
};

inline std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("a varint is too long");
}

inline std::vector<ProtobufField> read_protobuf(std::string_view bytes) {
  std::vector<ProtobufField> fields;
  while (!bytes.empty()) {
    const std::uint64_t key = read_varint(bytes);
    ProtobufField& field = fields.emplace_back();
    field.number = static_cast<std::uint32_t>(key >> 3);
    if ((key & 7) == 0) {
      field.integer = read_varint(bytes);
    } else if ((key & 7) == 2) {
      const std::uint64_t size = read_varint(bytes);
      if (size > bytes.size()) throw std::runtime_error("a field is cut off");
      field.bytes = bytes.substr(0, size);
      bytes.remove_prefix(size);
    } else {
      throw std::runtime_error("an unexpected wire type");
    }
  }
  return fields;
}

inline std::vector<std::uint64_t> read_packed(std::string_view bytes) {
  std::vector<std::uint64_t> values;
  while (!bytes.empty()) values.push_back(read_varint(bytes));
  return values;
}

// All fields with this number.
inline std::vector<ProtobufField> all_of(const std::vector<ProtobufField>& fields, std::uint32_t number) {
  std::vector<ProtobufField> found;
  for (const ProtobufField& field : fields)
    if (field.number == number) found.push_back(field);
  return found;
}
// The field with this number, or an empty one.
inline ProtobufField one_of(const std::vector<ProtobufField>& fields, std::uint32_t number) {
  for (const ProtobufField& field : fields)
    if (field.number == number) return field;
  return {};
}

}  // namespace headroom::exporters
