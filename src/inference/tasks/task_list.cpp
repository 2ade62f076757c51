#include "inference/tasks/task_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace headroom::inference {
namespace {

struct TaskKind {
  TaskName name;
  TaskResult (*make)(const ModelDescription&, const TaskOptions&);
};

// In the order in which a model is tried, more specific signatures first. yolo_end2end accepts any small
// number of rows of six, so heads whose row count follows from the picture's size come before it.
constexpr std::array kTasks{
    TaskKind{{"blazeface", "faces, BlazeFace front (128) and back (256)"}, make_blazeface},
    TaskKind{{"yunet", "faces with landmarks, YuNet"}, make_yunet},
    TaskKind{{"ultraface", "faces, Ultra-Light-Fast-Generic-Face-Detector"}, make_ultraface},
    TaskKind{{"db_text", "text regions, DB of PP-OCR", Thresholds::none}, make_db_text},
    TaskKind{{"yolov5", "boxes of YOLOv5, [1,N,5+classes]"}, make_yolov5},
    TaskKind{{"yolox", "boxes of YOLOX, [1,N,5+classes] on strides 8, 16, 32"}, make_yolox},
    TaskKind{{"yolo_end2end", "boxes of a YOLO export with built-in NMS, [1,N,6]", Thresholds::confidence},
             make_yolo_end2end},
    TaskKind{{"yolov8", "boxes of YOLOv8 and YOLO11, [1,4+classes,N]"}, make_yolov8},
    TaskKind{{"yolo_segmentation", "boxes and masks of YOLOv8-seg and YOLO11-seg"}, make_yolo_segmentation},
    TaskKind{{"mlsd", "line segments, M-LSD", Thresholds::confidence}, make_mlsd},
    TaskKind{{"fastestdet", "boxes of FastestDet, [1,5+classes,H/16,W/16]"}, make_fastestdet},
    TaskKind{{"segmentation", "masks of the whole image: people, or N classes", Thresholds::none},
             make_segmentation},
    TaskKind{{"classification", "the most likely class, [1,classes]", Thresholds::confidence},
             make_classification},
};

// Treats any model as one without a task: it runs on synthetic inputs, without a source.
constexpr TaskName kNone{"none", "no task: synthetic inputs, outputs ignored", Thresholds::none};

constexpr auto kNames = [] {
  std::array<TaskName, kTasks.size() + 1> names{};
  for (std::size_t i = 0; i < kTasks.size(); ++i) names[i] = kTasks[i].name;
  names.back() = kNone;
  return names;
}();

TaskResult make_forced(const ModelDescription& model, const TaskOptions& options) {
  if (options.forced == kNone.name) return nullptr;
  std::vector<std::string> known;
  for (const TaskKind& kind : kTasks) {
    if (kind.name.name == options.forced) return kind.make(model, options);
    known.emplace_back(kind.name.name);
  }
  const std::string close = closest_match(options.forced, known);
  return usage_error(fmt::format("unknown task \"{}\"", options.forced), {},
                     close.empty() ? fmt::format("choose one of {}", fmt::join(known, ", "))
                                   : fmt::format("did you mean \"{}\"?", close));
}

bool takes_picture(const TensorSpec& input) {
  const auto is_channels = [](std::int64_t n) { return n == 1 || n == 3 || n == 4; };
  return input.dims.size() == 4 && (is_channels(input.dims[1]) || is_channels(input.dims[3]));
}

bool is_without_task(std::string_view declared) {
  return !declared.empty() && declared != "detect" && declared != "segment" && declared != "classify";
}

}  // namespace

std::span<const TaskName> task_names() { return kNames; }

Result<std::unique_ptr<Task>> create_task(const ModelDescription& model, const TaskOptions& options) {
  if (!options.forced.empty()) return make_forced(model, options);
  for (const TaskKind& kind : kTasks)
    if (auto made = kind.make(model, options)) return made;
  return nullptr;
}

std::string why_without_task(const ModelDescription& model) {
  const auto picture = std::ranges::find_if(model.inputs, takes_picture);
  if (picture == model.inputs.end()) return {};
  if (picture->type != ElementType::float32 && picture->type != ElementType::uint8)
    return fmt::format(
        "its input is {}, but tasks need float32 or uint8; export it with float32 inputs and "
        "outputs (Ultralytics: without half=True)",
        picture->describe());
  if (const std::string declared = model.metadata_value("task"); is_without_task(declared))
    return fmt::format("Headroom has no task for exports of Ultralytics' task '{}'", declared);
  const auto half = std::ranges::find_if(
      model.outputs, [](const TensorSpec& output) { return output.type == ElementType::float16; });
  if (half != model.outputs.end())
    return fmt::format("its output is {}, but tasks need float32", half->describe());
  return "its outputs fit no task; --task NAME requires one and says what it needs";
}

}  // namespace headroom::inference
