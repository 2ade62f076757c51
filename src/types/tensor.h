// Tensors as a backend describes them. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

// Values are part of the backend plug-in interface (inference/backend_plugin.h): append only.
enum class ElementType : std::int32_t {
  unknown = 0,
  float32 = 1,
  float16 = 2,
  bfloat16 = 3,
  float64 = 4,
  int8 = 5,
  uint8 = 6,
  int16 = 7,
  uint16 = 8,
  int32 = 9,
  uint32 = 10,
  int64 = 11,
  uint64 = 12,
  boolean = 13,
  string = 14,
};

std::string_view name_of(ElementType type);
// Bytes of one element; 0 for unknown and string.
std::size_t size_of(ElementType type);

// An input or output in a model's signature. A dynamic dimension is -1 and may have a symbolic name.
struct TensorSpec {
  std::string name;
  ElementType type = ElementType::unknown;
  std::vector<std::int64_t> dims;
  std::vector<std::string> dim_names;  // as long as dims; empty where the dimension has no name
  bool is_static() const;
  // "float32[1,3,height,640]".
  std::string describe() const;
};

// The number of elements; 0 if any dimension is dynamic (negative) or the product overflows.
std::int64_t element_count(const std::vector<std::int64_t>& dims);

// The description of a loaded model, from the model itself.
struct ModelDescription {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<std::pair<std::string, std::string>> metadata;  // "task" → "detect", "names" → "{0: 'person'…"
  std::string metadata_value(std::string_view key) const;  // empty if absent
};

// A view of concrete values in host memory; does not own them.
struct TensorView {
  const void* data = nullptr;
  ElementType type = ElementType::unknown;
  const std::int64_t* dims = nullptr;
  std::size_t rank = 0;
  std::int64_t dim(std::size_t i) const { return i < rank ? dims[i] : 1; }
  std::int64_t count() const;
  const float* as_float() const { return static_cast<const float*>(data); }
};

}  // namespace headroom
