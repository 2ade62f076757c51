#include "inference/tensorrt/input_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "types/tensor.h"

namespace headroom::tensorrt {

Result<std::vector<std::int64_t>> resolve_shape(const std::string& name,
                                                const std::vector<std::int64_t>& dims, int image_size) {
  std::vector<std::int64_t> resolved = dims;
  if (!resolved.empty() && resolved.front() < 0) resolved.front() = 1;
  const auto open = std::count_if(resolved.begin(), resolved.end(), [](auto dim) { return dim < 0; });
  const bool is_picture = resolved.size() == 3 || resolved.size() == 4;
  if (open > 0 && !(is_picture && open <= 2))
    return failure(fmt::format("input {} has a dynamic shape", name),
                   fmt::format("an image size does not determine {}",
                               TensorSpec{"", ElementType::unknown, dims, {}}.describe()),
                   "export the model with fixed shapes");
  std::replace_if(
      resolved.begin(), resolved.end(), [](auto dim) { return dim < 0; }, std::int64_t{image_size});
  return resolved;
}

}  // namespace headroom::tensorrt
