// What the YOLO heads share.
#pragma once

#include "inference/tasks/detections.h"
#include "inference/tasks/task_base.h"

namespace headroom::inference {

// Ultralytics exports say what they are ("detect", "segment", "pose", …); others say nothing.
bool may_be_ultralytics(const ModelDescription& model, std::string_view task);
// The picture of a YOLO export: RGB/255 letterboxed with 114, sides a multiple of the exporter's stride.
std::optional<ImageInput> find_yolo_input(const ModelDescription& model, int image_size);

// Adds the boxes of a v8/11 head: `rows` is 4 + classes (+ more) rows of `anchors` values: centre x, y,
// width, height, then a score a class. One walk over the scores, a tile of anchors at a time.
void add_v8_candidates(const float* rows, std::int64_t anchors, std::int64_t classes,
                       DetectionCollector& collector);

}  // namespace headroom::inference
