// Every task, one function each, defined in <name>_task.cpp. A function makes the task if the model fits it,
// else returns an error that says what the task wants. When nothing is forced it also asks that the model can
// be told from other tasks by its metadata, names and shapes.
#pragma once

#include "inference/task.h"

namespace headroom::inference {

using MadeTask = Result<std::unique_ptr<Task>>;

MadeTask make_blazeface(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolov5(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolov8(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolo_end2end(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolox(const ModelDescription& model, const TaskOptions& options);

}  // namespace headroom::inference
