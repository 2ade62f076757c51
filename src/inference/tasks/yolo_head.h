// Code that the YOLO heads share.
#pragma once

#include "inference/tasks/detections.h"
#include "inference/tasks/task_base.h"

namespace headroom::inference {

// True if the metadata declares this task, or no task. Ultralytics exports declare theirs ("detect",
// "segment", "pose", …); other exporters do not.
bool may_be_ultralytics(const ModelDescription& model, std::string_view task);
// The image input of a YOLO export: RGB/255, letterboxed with 114, sides a multiple of the exporter's
// stride.
std::optional<ImageInput> find_yolo_input(const ModelDescription& model, int image_size);

// Adds the boxes of a v8/11 head. `rows` is 4 + classes (+ more) rows of `anchors` values: centre x, y,
// width, height, then one score per class. Passes once over the scores, one tile of anchors at a time.
void add_v8_candidates(const float* rows, std::int64_t anchors, std::int64_t classes,
                       DetectionCollector& collector);

}  // namespace headroom::inference
