#include "inference/tensorrt/input_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/tensor.h"

namespace headroom::tensorrt {

Result<std::vector<std::int64_t>> settle_shape(const std::string& name, const std::vector<std::int64_t>& dims,
                                               int image_size) {
  std::vector<std::int64_t> settled = dims;
  if (!settled.empty() && settled.front() < 0) settled.front() = 1;
  const auto open = std::count_if(settled.begin(), settled.end(), [](auto dim) { return dim < 0; });
  const bool is_picture = settled.size() == 3 || settled.size() == 4;
  if (open > 0 && !(is_picture && open <= 2))
    return failure(fmt::format("the shape of input {} is open", name),
                   fmt::format("it is [{}], which an image size does not settle",
                               TensorSpec{"", ElementType::unknown, dims, {}}.describe()),
                   "export the model with fixed shapes");
  std::replace_if(
      settled.begin(), settled.end(), [](auto dim) { return dim < 0; }, std::int64_t{image_size});
  return settled;
}

}  // namespace headroom::tensorrt
