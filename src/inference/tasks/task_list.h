// One function per task, defined in <name>_task.cpp. It creates the task if the model fits, else returns
// an error that says what the task needs. If no task is forced, it also requires that the model's
// metadata, names and shapes distinguish it from models of other tasks.
#pragma once

#include "inference/task.h"

namespace headroom::inference {

using TaskResult = Result<std::unique_ptr<Task>>;

TaskResult make_blazeface(const ModelDescription& model, const TaskOptions& options);
TaskResult make_classification(const ModelDescription& model, const TaskOptions& options);
TaskResult make_db_text(const ModelDescription& model, const TaskOptions& options);
TaskResult make_fastestdet(const ModelDescription& model, const TaskOptions& options);
TaskResult make_mlsd(const ModelDescription& model, const TaskOptions& options);
TaskResult make_segmentation(const ModelDescription& model, const TaskOptions& options);
TaskResult make_ultraface(const ModelDescription& model, const TaskOptions& options);
TaskResult make_yolo_end2end(const ModelDescription& model, const TaskOptions& options);
TaskResult make_yolo_segmentation(const ModelDescription& model, const TaskOptions& options);
TaskResult make_yolov5(const ModelDescription& model, const TaskOptions& options);
TaskResult make_yolov8(const ModelDescription& model, const TaskOptions& options);
TaskResult make_yolox(const ModelDescription& model, const TaskOptions& options);
TaskResult make_yunet(const ModelDescription& model, const TaskOptions& options);

}  // namespace headroom::inference
