// Writes ONNX files with one node, byte by byte (protobuf). They cover behaviour that no small public
// model shows: outputs whose shape depends on values, strings, sequences, empty tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::test {

// Element types, with ONNX's numbers.
enum class OnnxType : std::uint64_t { float32 = 1, int64 = 7, string = 8 };

struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::float32;
  std::vector<std::string> dims;  // numbers, or names of dynamic dimensions
  bool sequence = false;
};

struct OnnxNode {
  std::string op;
  std::vector<OnnxValue> inputs, outputs;
};

namespace protobuf {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string number(unsigned field, std::uint64_t value) { return varint(field << 3) + varint(value); }
inline std::string text(unsigned field, std::string_view bytes) {
  return varint((field << 3) | 2) + varint(bytes.size()) + std::string(bytes);
}

}  // namespace protobuf

inline std::string onnx_type(const OnnxValue& value) {
  using namespace protobuf;
  std::string shape;
  for (const std::string& dim : value.dims) {
    const bool is_number = dim.find_first_not_of("0123456789") == std::string::npos;
    shape += text(1, is_number ? number(1, std::stoull(dim)) : text(2, dim));
  }
  const std::string tensor = text(1, number(1, static_cast<std::uint64_t>(value.type)) + text(2, shape));
  return value.sequence ? text(4, text(1, tensor)) : tensor;
}

// The bytes of a model with IR version 8, operator set 13 and the metadata entry colour = green.
inline std::string onnx_model(const OnnxNode& node) {
  using namespace protobuf;
  std::string body, graph;
  for (const OnnxValue& input : node.inputs) body += text(1, input.name);
  for (const OnnxValue& output : node.outputs) body += text(2, output.name);
  graph += text(1, body + text(4, node.op)) + text(2, "tiny");
  for (const OnnxValue& input : node.inputs)
    graph += text(11, text(1, input.name) + text(2, onnx_type(input)));
  for (const OnnxValue& output : node.outputs)
    graph += text(12, text(1, output.name) + text(2, onnx_type(output)));
  return number(1, 8) + text(2, "headroom-test") + text(7, graph) + text(8, text(1, "") + number(2, 13)) +
         text(14, text(1, "colour") + text(2, "green"));
}

}  // namespace headroom::test
