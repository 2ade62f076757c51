// Every task, one function each, defined in <name>_task.cpp. A function makes the task if the model fits it,
// else returns an error that says what the task wants. When nothing is forced it also asks that the model can
// be told from other tasks by its metadata, names and shapes.
#pragma once

#include "inference/task.h"

namespace headroom::inference {

using MadeTask = Result<std::unique_ptr<Task>>;

MadeTask make_blazeface(const ModelDescription& model, const TaskOptions& options);
MadeTask make_classification(const ModelDescription& model, const TaskOptions& options);
MadeTask make_db_text(const ModelDescription& model, const TaskOptions& options);
MadeTask make_fastestdet(const ModelDescription& model, const TaskOptions& options);
MadeTask make_mlsd(const ModelDescription& model, const TaskOptions& options);
MadeTask make_segmentation(const ModelDescription& model, const TaskOptions& options);
MadeTask make_ultraface(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolo_end2end(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolo_segmentation(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolov5(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolov8(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yolox(const ModelDescription& model, const TaskOptions& options);
MadeTask make_yunet(const ModelDescription& model, const TaskOptions& options);

}  // namespace headroom::inference
