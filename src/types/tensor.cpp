#include "types/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace headroom {
namespace {

struct TypeFacts {
  std::string_view name;
  std::size_t bytes;
};
// In the order of ElementType.
constexpr TypeFacts kTypes[] = {{"unknown", 0}, {"float32", 4}, {"float16", 2}, {"bfloat16", 2},
                                {"float64", 8}, {"int8", 1},    {"uint8", 1},   {"int16", 2},
                                {"uint16", 2},  {"int32", 4},   {"uint32", 4},  {"int64", 8},
                                {"uint64", 8},  {"bool", 1},    {"string", 0}};

const TypeFacts& facts_of(ElementType type) {
  const auto place = static_cast<std::size_t>(type);
  return kTypes[place < std::size(kTypes) ? place : 0];
}

}  // namespace

std::string_view name_of(ElementType type) { return facts_of(type).name; }
std::size_t size_of(ElementType type) { return facts_of(type).bytes; }

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
