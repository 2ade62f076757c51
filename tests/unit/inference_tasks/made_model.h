// Models that are only a signature, and hand-made outputs for them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "inference/task.h"
#include "types/tensor.h"

namespace headroom::test {

using Dims = std::vector<std::int64_t>;
using Metadata = std::vector<std::pair<std::string, std::string>>;

inline TensorSpec spec(std::string name, Dims dims, ElementType type = ElementType::float32) {
  return {std::move(name), type, std::move(dims), {}};
}

inline ModelDescription model(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                              Metadata metadata = {}) {
  return {std::move(inputs), std::move(outputs), std::move(metadata)};
}

// A model with one picture of 640×640 as input, and these outputs.
inline ModelDescription picture_model(std::vector<TensorSpec> outputs, Metadata metadata = {}) {
  return model({spec("images", {1, 3, 640, 640})}, std::move(outputs), std::move(metadata));
}

// A tensor that owns its values.
class Output {
 public:
  explicit Output(Dims dims, float fill = 0)
      : dims_(std::move(dims)),
        values_(static_cast<std::size_t>(std::max<std::int64_t>(element_count(dims_), 0)), fill) {}
  // The element at these indices.
  float& at(const Dims& indices) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < dims_.size(); ++i) offset = offset * dims_[i] + indices[i];
    return values_[static_cast<std::size_t>(offset)];
  }
  std::vector<float>& values() { return values_; }
  TensorView view() const { return {values_.data(), ElementType::float32, dims_.data(), dims_.size()}; }

 private:
  Dims dims_;
  std::vector<float> values_;
};

// The name of the task that is created, or "none".
inline std::string task_of(const ModelDescription& description, const inference::TaskOptions& options = {}) {
  auto task = inference::create_task(description, options);
  if (!task) return "error: " + task.error().sentence();
  return *task ? std::string((*task)->name()) : "none";
}

}  // namespace headroom::test
