// A task knows what a model's tensors mean: how a frame becomes its input, and how its outputs become
// findings. One file a task in inference/tasks/, one list in tasks/task_list.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/detection.h"
#include "model/tensor.h"

namespace headroom::inference {

enum class Layout { nchw, nhwc };
enum class ChannelOrder {
  rgb,
  bgr,
  gray,
  rgba,  // the fourth channel is 1 everywhere (M-LSD)
};
// Channels of the tensor.
constexpr int channel_count(ChannelOrder order) {
  return order == ChannelOrder::gray ? 1 : order == ChannelOrder::rgba ? 4 : 3;
}
enum class Resize {
  letterbox,           // keep the aspect, pad both sides evenly (ultralytics)
  letterbox_top_left,  // keep the aspect, pad right and bottom (YOLOX)
  stretch,
};

// How a decoded frame (8-bit BGR, interleaved) becomes an input tensor:
// value = (pixel − mean[c]) · scale[c], c in the tensor's channel order.
struct InputSpec {
  std::size_t input_index = 0;
  int width = 0, height = 0;
  Layout layout = Layout::nchw;
  ChannelOrder channels = ChannelOrder::rgb;
  Resize resize = Resize::letterbox;
  std::uint8_t pad = 114;
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> scale{1.0F / 255, 1.0F / 255, 1.0F / 255};
  ElementType type = ElementType::float32;  // float32 or uint8
};

// Where the frame lies inside the input: input = frame · scale + offset. Used to map findings back.
struct FrameTransform {
  float scale_x = 1, scale_y = 1;
  float offset_x = 0, offset_y = 0;
  int frame_width = 0, frame_height = 0;
};

struct TaskOptions {
  std::string forced;  // a task's name, or empty: recognise
  int image_size = 640;
  float confidence = 0.25F;
  float iou = 0.45F;
};

// Decodes outputs. All scratch memory is made at construction or in the first calls; after warm-up decode()
// allocates nothing.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::string_view name() const = 0;  // "yolox", "db_text", …
  virtual const InputSpec& input() const = 0;
  // Concrete shapes for every input of the model, in order (dynamic ones resolved).
  virtual const std::vector<std::vector<std::int64_t>>& input_dims() const = 0;
  // Class names if the model has them ("person"); may be empty.
  virtual const std::vector<std::string>& class_names() const = 0;
  // `outputs` are the model's outputs in order. Findings are in pixels of the frame.
  virtual void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
                      FrameFindings& findings) = 0;
};

// Which of --conf and --iou a task looks at.
enum class Thresholds { none, confidence, confidence_and_iou };

// The names for --task, in the order in which models are tried, with a line of help each.
struct TaskName {
  std::string_view name, help;
  Thresholds thresholds = Thresholds::confidence_and_iou;
};
std::span<const TaskName> task_names();

// The task of a model: `options.forced`, or the first of the list that recognises the model by its metadata,
// names and shapes. nullptr: a model without a known vision task (it runs on made-up inputs). Errors: a
// forced task that does not exist or does not fit this model's tensors.
Result<std::unique_ptr<Task>> create_task(const ModelDescription& model, const TaskOptions& options);

}  // namespace headroom::inference
