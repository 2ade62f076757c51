#include "bench/protocol.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/json.h"
#include "report/run/report_json.h"

namespace headroom::bench {
namespace {

constexpr std::array<std::string_view, 5> kKindNames{"setup", "tune", "inference", "pipeline", "pool"};

Json to_json(const WorkerModel& model) {
  Json object;
  object["name"] = model.name;
  object["path"] = model.path;
  object["backend"] = model.backend;
  object["backend_path"] = model.backend_path;
  object["task"] = model.task;
  object["settings"] = report::to_json(model.settings);
  set_if(object, "confidence", model.confidence);
  set_if(object, "iou", model.iou);
  if (!model.outputs.empty()) object["outputs"] = bench::to_json(model.outputs);
  if (model.every != 1) object["every"] = model.every;
  if (model.isolated) object["isolated"] = true;
  if (model.load_peak > Bytes{}) object["load_peak_bytes"] = model.load_peak.count;
  if (model.run_peak > Bytes{}) object["run_peak_bytes"] = model.run_peak.count;
  return object;
}

}  // namespace

Json to_json(const std::vector<TensorSpec>& tensors) {
  Json list = Json::array();
  for (const TensorSpec& tensor : tensors) {
    Json entry;
    entry["name"] = tensor.name;
    entry["type"] = static_cast<std::int32_t>(tensor.type);  // as in the plug-in interface
    entry["dims"] = tensor.dims;
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<TensorSpec> tensors_from_json(const Json& document) {
  std::vector<TensorSpec> tensors;
  for (const Json& entry : document) {
    TensorSpec tensor;
    tensor.name = get_text(entry, "name");
    tensor.type = static_cast<ElementType>(get_integer(entry, "type").value_or(0));
    for (const Json& dim : get_member(entry, "dims"))
      if (dim.is_number_integer()) tensor.dims.push_back(dim.get<std::int64_t>());
    tensor.dim_names.resize(tensor.dims.size());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Json to_json(const WorkerJob& job) {
  Json object;
  object["kind"] = kKindNames.at(static_cast<std::size_t>(job.kind));
  object["models"] = Json::array();
  for (const WorkerModel& model : job.models) object["models"].push_back(to_json(model));
  object["image_size"] = job.image_size;
  object["confidence"] = job.confidence;
  object["iou"] = job.iou;
  object["max_frames"] = job.max_frames;
  object["warmup_frames"] = job.warmup_frames;
  object["window_frames"] = job.window_frames;
  object["sample_images"] = job.sample_images;
  object["sequences"] = Json::array();
  for (const WorkerSequence& sequence : job.sequences) {
    Json entry;
    entry["name"] = sequence.name;
    entry["frames"] = sequence.frames;
    entry["objects"] = sequence.objects;
    object["sequences"].push_back(std::move(entry));
  }
  object["use_frames"] = job.use_frames;
  object["wait_for_gate"] = job.wait_for_gate;
  if (job.turns) {
    object["turns"]["first"] = job.turns->first;
    object["turns"]["timeout_ns"] = job.turns->timeout.count;
  }
  if (job.pool) {
    object["pool"]["budget_bytes"] = job.pool->budget.count;
    object["pool"]["load_timeout_ns"] = job.pool->load_timeout.count;
    object["pool"]["events_to"] = job.pool->events_to;
    object["pool"]["threads"] = job.pool->threads;
  }
  return object;
}

Result<WorkerJob> worker_job_from_json(const Json& document) {
  WorkerJob job;
  const std::string kind = get_text(document, "kind");
  bool known = false;
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames.at(i) != kind) continue;
    job.kind = static_cast<WorkerKind>(i);
    known = true;
  }
  if (!known) return internal_error("the worker's job has an unknown kind", kind);
  for (const Json& entry : get_member(document, "models")) {
    WorkerModel model;
    model.name = get_text(entry, "name");
    model.path = get_text(entry, "path");
    model.backend = get_text(entry, "backend");
    model.backend_path = get_text(entry, "backend_path");
    model.task = get_text(entry, "task");
    auto settings = report::settings_from_json(get_member(entry, "settings"));
    if (!settings) return forward_error(settings);
    model.settings = *settings;
    model.confidence = get_number(entry, "confidence");
    model.iou = get_number(entry, "iou");
    model.outputs = tensors_from_json(get_member(entry, "outputs"));
    model.every = std::max<std::int64_t>(1, get_integer(entry, "every").value_or(1));
    model.isolated = get_bool(entry, "isolated").value_or(false);
    model.load_peak = get_bytes(entry, "load_peak_bytes").value_or(Bytes{});
    model.run_peak = get_bytes(entry, "run_peak_bytes").value_or(Bytes{});
    job.models.push_back(std::move(model));
  }
  if (job.models.empty()) return internal_error("the worker's job has no model");
  job.image_size = static_cast<int>(get_integer(document, "image_size").value_or(job.image_size));
  job.confidence = get_number(document, "confidence").value_or(job.confidence);
  job.iou = get_number(document, "iou").value_or(job.iou);
  job.max_frames = get_integer(document, "max_frames").value_or(job.max_frames);
  job.warmup_frames = get_integer(document, "warmup_frames").value_or(job.warmup_frames);
  job.window_frames = get_integer(document, "window_frames").value_or(job.window_frames);
  job.sample_images = static_cast<int>(get_integer(document, "sample_images").value_or(0));
  for (const Json& entry : get_member(document, "sequences")) {
    WorkerSequence sequence;
    sequence.name = get_text(entry, "name");
    sequence.frames = get_integer(entry, "frames").value_or(0);
    for (const Json& object : get_member(entry, "objects"))
      sequence.objects.push_back(object.is_string() ? object.get<std::string>() : std::string());
    job.sequences.push_back(std::move(sequence));
  }
  job.use_frames = get_bool(document, "use_frames").value_or(false);
  job.wait_for_gate = get_bool(document, "wait_for_gate").value_or(false);
  const Json& turns = get_member(document, "turns");
  if (const auto first = get_bool(turns, "first"))
    job.turns = WorkerTurns{*first, get_nanoseconds(turns, "timeout_ns").value_or(WorkerTurns{}.timeout)};
  const Json& pool = get_member(document, "pool");
  if (const auto budget = get_bytes(pool, "budget_bytes"))
    job.pool = WorkerPool{*budget, get_nanoseconds(pool, "load_timeout_ns").value_or(Nanoseconds{}),
                          get_text(pool, "events_to"),
                          std::max<std::int64_t>(1, get_integer(pool, "threads").value_or(1))};
  if ((job.kind == WorkerKind::pool) != job.pool.has_value())
    return internal_error("the worker's job has a pool without a budget, or a budget without a pool");
  return job;
}

}  // namespace headroom::bench
