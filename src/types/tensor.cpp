#include "types/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace headroom {

std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::unknown:
      return "unknown";
    case ElementType::float32:
      return "float32";
    case ElementType::float16:
      return "float16";
    case ElementType::bfloat16:
      return "bfloat16";
    case ElementType::float64:
      return "float64";
    case ElementType::int8:
      return "int8";
    case ElementType::uint8:
      return "uint8";
    case ElementType::int16:
      return "int16";
    case ElementType::uint16:
      return "uint16";
    case ElementType::int32:
      return "int32";
    case ElementType::uint32:
      return "uint32";
    case ElementType::int64:
      return "int64";
    case ElementType::uint64:
      return "uint64";
    case ElementType::boolean:
      return "bool";
    case ElementType::string:
      return "string";
  }
  return "unknown";
}

std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8:
    case ElementType::boolean:
      return 1;
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
    case ElementType::uint16:
      return 2;
    case ElementType::float32:
    case ElementType::int32:
    case ElementType::uint32:
      return 4;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::uint64:
      return 8;
    case ElementType::unknown:
    case ElementType::string:
      return 0;
  }
  return 0;
}

bool TensorSpec::is_static() const {
  return std::all_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim >= 0; });
}

std::string TensorSpec::describe() const {
  std::string text = fmt::format("{}[", name_of(type));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    if (dims[i] >= 0)
      text += std::to_string(dims[i]);
    else
      text += i < dim_names.size() && !dim_names[i].empty() ? dim_names[i] : "?";
  }
  return text + "]";
}

std::int64_t element_count(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return 0;
    if (dim != 0 && count > std::numeric_limits<std::int64_t>::max() / dim) return 0;
    count *= dim;
  }
  return count;
}

std::string ModelDescription::metadata_value(std::string_view key) const {
  for (const auto& [name, value] : metadata)
    if (name == key) return value;
  return {};
}

std::int64_t TensorView::count() const {
  std::int64_t total = 1;
  for (std::size_t i = 0; i < rank; ++i) total *= dims[i];
  return total;
}

}  // namespace headroom
