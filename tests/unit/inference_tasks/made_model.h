// Models that are only a signature, and hand-made outputs for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inference/preprocessor.h"
#include "inference/task.h"
#include "types/tensor.h"
#include "unit/inference/results.h"

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
  // Writes these values from the indices on, along one axis.
  void put(Dims indices, std::size_t axis, const std::vector<float>& values) {
    for (const float value : values) {
      at(indices) = value;
      ++indices[axis];
    }
  }
  std::vector<float>& values() { return values_; }
  TensorView view() const { return {values_.data(), ElementType::float32, dims_.data(), dims_.size()}; }

 private:
  Dims dims_;
  std::vector<float> values_;
};

// One output for each of the model.
inline std::vector<Output> outputs_of(const ModelDescription& description, float fill = 0) {
  std::vector<Output> outputs;
  for (const TensorSpec& output : description.outputs) outputs.emplace_back(output.dims, fill);
  return outputs;
}

inline std::vector<TensorView> views_of(const std::vector<Output>& outputs) {
  std::vector<TensorView> views;
  for (const Output& output : outputs) views.push_back(output.view());
  return views;
}

// The task of a model; a model without a task ends the test.
inline std::unique_ptr<inference::Task> make_task(const ModelDescription& description,
                                                  const inference::TaskOptions& options = {}) {
  auto task = value_of(inference::create_task(description, options));
  if (!task) throw std::runtime_error("the model has no task");
  return task;
}

// The findings in a frame of this size.
inline FrameFindings decode(inference::Task& task, const std::vector<TensorView>& outputs, int width,
                            int height) {
  FrameFindings findings;
  task.decode(outputs, inference::place_frame(task.input(), width, height).transform, findings);
  return findings;
}

}  // namespace headroom::test
