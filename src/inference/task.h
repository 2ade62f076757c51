// A task knows the meaning of a model's tensors: how to make the input from a frame, and how to read findings
// from the outputs. Each task is one file in inference/tasks/ and one entry in tasks/task_list.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/detection.h"
#include "types/tensor.h"

namespace headroom::inference {

enum class Layout { nchw, nhwc };
enum class ChannelOrder {
  rgb,
  bgr,
  gray,
  rgba,  // the fourth channel is 1 everywhere (M-LSD)
};
// Number of channels of the tensor.
constexpr int channel_count(ChannelOrder order) {
  return order == ChannelOrder::gray ? 1 : order == ChannelOrder::rgba ? 4 : 3;
}
enum class Resize {
  letterbox,           // keep the aspect ratio, pad both sides evenly (ultralytics)
  letterbox_top_left,  // keep the aspect ratio, pad right and bottom (YOLOX)
  stretch,
};

// How to convert a decoded frame (8-bit BGR, interleaved) to an input tensor: value = (pixel − mean[c]) ·
// scale[c], with c in the tensor's channel order.
struct InputSpec {
  std::size_t input_index = 0;
  int width = 0, height = 0;
  Layout layout = Layout::nchw;
  ChannelOrder channels = ChannelOrder::rgb;
  Resize resize = Resize::letterbox;
  std::uint8_t pad = 114;  // grey level of the padding, 0 to 255
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> scale{1.0F / 255, 1.0F / 255, 1.0F / 255};
  ElementType type = ElementType::float32;  // float32 or uint8
};

// Position of the frame inside the input: input = frame · scale + offset. Used to convert findings to frame
// pixels.
struct FrameTransform {
  float scale_x = 1, scale_y = 1;
  float offset_x = 0, offset_y = 0;
  int frame_width = 0, frame_height = 0;
};

struct TaskOptions {
  std::string forced;        // a task's name; empty: recognise the task from the model
  int image_size = 640;      // pixels; for sides that the model leaves dynamic
  float confidence = 0.25F;  // minimum score, 0 to 1
  float iou = 0.45F;         // overlap above which suppression drops a box, 0 to 1
};

// Decodes a model's outputs. Scratch memory is allocated at construction or in the first calls. After
// warm-up, decode() allocates nothing.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::string_view name() const = 0;  // "yolox", "db_text", …
  virtual const InputSpec& input() const = 0;
  // Shapes of all inputs of the model, in order, with dynamic dimensions resolved.
  virtual const std::vector<std::vector<std::int64_t>>& input_dims() const = 0;
  // Class names ("person"); empty if the model has none.
  virtual const std::vector<std::string>& class_names() const = 0;
  // `outputs` are the model's outputs in order. Findings are in pixels of the frame.
  virtual void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
                      FrameFindings& findings) = 0;
};

// Which of --conf and --iou a task uses.
enum class Thresholds { none, confidence, confidence_and_iou };

// The names for --task, each with one line of help, in the order in which a model is tried.
struct TaskName {
  std::string_view name, help;
  Thresholds thresholds = Thresholds::confidence_and_iou;
};
std::span<const TaskName> task_names();

// Creates the task of a model: `options.forced`, else the first in the list that recognises the model by its
// metadata, names and shapes. Returns nullptr for a model without a known vision task; it runs on synthetic
// inputs. Fails if the forced task does not exist or does not fit the model's tensors.
Result<std::unique_ptr<Task>> create_task(const ModelDescription& model, const TaskOptions& options);
// Why no task recognises a model that takes pictures: its input's type, a kind of export without a task, or
// its outputs. Empty for models without a picture as input.
std::string why_without_task(const ModelDescription& model);

}  // namespace headroom::inference
