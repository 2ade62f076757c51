// Code that most tasks share: the image input of a model, the plain data of a Task, class names, and the
// mapping from input pixels to frame pixels. At the end, the list of tasks.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/task.h"

namespace headroom::inference {

// The image input of a model: rank 4, float32 or uint8, 1, 3 or 4 channels.
struct ImageInput {
  InputSpec spec;                               // layout, type, index, channels, width and height are set
  std::vector<std::vector<std::int64_t>> dims;  // dims of all inputs, without dynamic ones
};

// The part of Task that is equal in all tasks: data set at construction.
class TaskBase : public Task {
 public:
  std::string_view name() const final { return name_; }
  const InputSpec& input() const final { return input_; }
  const std::vector<std::vector<std::int64_t>>& input_dims() const final { return input_dims_; }
  const std::vector<std::string>& class_names() const final { return class_names_; }

 protected:
  TaskBase(std::string_view name, const ImageInput& image, std::vector<std::string> class_names)
      : name_(name), input_(image.spec), input_dims_(image.dims), class_names_(std::move(class_names)) {}

 private:
  std::string_view name_;
  InputSpec input_;
  std::vector<std::vector<std::int64_t>> input_dims_;
  std::vector<std::string> class_names_;
};

// Finds the image input and resolves all dynamic dimensions: height and width become `image_size`, rounded
// up to a multiple of `multiple`; others become 1. Returns nothing if the model has no such input, or
// needs more than one picture at a time. An input of bytes gets scale 1, so pixels are copied unchanged.
std::optional<ImageInput> find_image_input(const ModelDescription& model, int image_size, int multiple);

// Sets mean and scale. Leaves an input of bytes unchanged.
void normalise(InputSpec& input, std::array<float, 3> mean, std::array<float, 3> scale);

// Class names from the metadata "names" of an ultralytics export ({0: 'person', 1: …}), else COCO's if
// there are 80 classes, else none. The result has `count` names or 0. A negative `count`
// accepts any number of names from the metadata.
std::vector<std::string> class_names_of(const ModelDescription& model, std::int64_t count);
// Parses a Python dict or list of names: "{0: 'person', 1: \"driver's seat\"}". Returns nothing if it is
// neither.
std::vector<std::string> parse_names(std::string_view text);

// True if the shapes match. -1 in `pattern` matches any size; a dynamic dimension matches any pattern.
bool fits(const std::vector<std::int64_t>& dims, std::initializer_list<std::int64_t> pattern);
bool is_float(const TensorSpec& spec);
// The model's output if there is only one, and it is float32 and fits the pattern; otherwise null.
const TensorSpec* only_output(const ModelDescription& model, std::initializer_list<std::int64_t> pattern);

// The number of cells in the grids with these strides: 640×640 at {8, 16, 32} has 8,400.
std::int64_t grid_cells(int width, int height, std::initializer_list<int> strides);

// The data of an output as float32. Null if it has fewer than `at_least` elements, another type or no
// data.
const float* float_data(std::span<const TensorView> outputs, std::size_t index, std::int64_t at_least);

// Maps input pixels to frame pixels.
struct FrameMapping {
  float inverse_x = 1, inverse_y = 1, offset_x = 0, offset_y = 0, width = 0, height = 0;
  explicit FrameMapping(const FrameTransform& transform);
  float x(float input_x) const { return (input_x - offset_x) * inverse_x; }
  float y(float input_y) const { return (input_y - offset_y) * inverse_y; }
  float clamped_x(float input_x) const;
  float clamped_y(float input_y) const;
};

// Creates the error that explains why a forced task does not fit.
tl::unexpected<Error> does_not_fit(std::string_view task, std::string_view needs);

float sigmoid(float x);

// One function per task, defined in <name>_task.cpp. It creates the task if the model fits, else returns
// an error that says what the task needs. If no task is forced, it also requires that the model's
// metadata, names and shapes distinguish it from models of other tasks.
using TaskResult = Result<std::unique_ptr<Task>>;

using MakeTask = TaskResult(const ModelDescription& model, const TaskOptions& options);
MakeTask make_blazeface, make_classification, make_db_text, make_fastestdet, make_mlsd, make_segmentation,
    make_ultraface, make_yolo_end2end, make_yolo_segmentation, make_yolov5, make_yolov8, make_yolox,
    make_yunet;

}  // namespace headroom::inference
