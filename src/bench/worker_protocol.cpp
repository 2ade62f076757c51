#include "bench/worker_protocol.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/json.h"
#include "report/report_json.h"

namespace headroom::bench {
namespace {

constexpr std::array<std::string_view, 4> kKindNames{"setup", "tune", "inference", "pipeline"};

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
  return object;
}

template <std::size_t N>
Json numbers(const std::array<float, N>& values, std::size_t count = N) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count && i < N; ++i) list.push_back(values.at(i));
  return list;
}

float number_at(const Json& list, std::size_t index) {
  return list.is_array() && index < list.size() && list[index].is_number() ? list[index].get<float>() : 0.0F;
}

}  // namespace

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
  return job;
}

Json to_json(const FrameFindings& findings) {
  Json object = Json::object();
  for (const Detection& found : findings.detections) {
    Json entry;
    entry["box"] = {found.left, found.top, found.right, found.bottom};
    entry["score"] = found.score;
    entry["class_id"] = found.class_id;
    if (found.landmark_count > 0)
      entry["landmarks"] = numbers(found.landmarks, 2 * static_cast<std::size_t>(found.landmark_count));
    object["detections"].push_back(std::move(entry));
  }
  for (const Quad& quad : findings.quads) {
    Json entry;
    entry["corners"] = numbers(quad.corners);
    entry["score"] = quad.score;
    object["quads"].push_back(std::move(entry));
  }
  for (const LineSegment& line : findings.lines) {
    Json entry;
    entry["ends"] = {line.x0, line.y0, line.x1, line.y1};
    entry["score"] = line.score;
    object["lines"].push_back(std::move(entry));
  }
  for (const Mask& mask : findings.masks) {
    Json entry;
    entry["width"] = mask.width;
    entry["height"] = mask.height;
    entry["rectangle"] = {mask.left, mask.top, mask.right, mask.bottom};
    entry["values"] = mask.values;
    object["masks"].push_back(std::move(entry));
  }
  return object;
}

FrameFindings findings_from_json(const Json& document) {
  FrameFindings findings;
  for (const Json& entry : get_member(document, "detections")) {
    Detection found;
    const Json& box = get_member(entry, "box");
    found.left = number_at(box, 0);
    found.top = number_at(box, 1);
    found.right = number_at(box, 2);
    found.bottom = number_at(box, 3);
    found.score = static_cast<float>(get_number(entry, "score").value_or(0));
    found.class_id = static_cast<std::int32_t>(get_integer(entry, "class_id").value_or(0));
    const Json& landmarks = get_member(entry, "landmarks");
    found.landmark_count = static_cast<std::int32_t>(std::min<std::size_t>(landmarks.size(), 12) / 2);
    for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(found.landmark_count); ++i)
      found.landmarks.at(i) = number_at(landmarks, i);
    findings.detections.push_back(found);
  }
  for (const Json& entry : get_member(document, "quads")) {
    Quad quad;
    for (std::size_t i = 0; i < quad.corners.size(); ++i)
      quad.corners.at(i) = number_at(get_member(entry, "corners"), i);
    quad.score = static_cast<float>(get_number(entry, "score").value_or(0));
    findings.quads.push_back(quad);
  }
  for (const Json& entry : get_member(document, "lines")) {
    const Json& ends = get_member(entry, "ends");
    findings.lines.push_back({number_at(ends, 0), number_at(ends, 1), number_at(ends, 2), number_at(ends, 3),
                              static_cast<float>(get_number(entry, "score").value_or(0))});
  }
  for (const Json& entry : get_member(document, "masks")) {
    Mask mask;
    mask.width = static_cast<std::int32_t>(get_integer(entry, "width").value_or(0));
    mask.height = static_cast<std::int32_t>(get_integer(entry, "height").value_or(0));
    const Json& rectangle = get_member(entry, "rectangle");
    mask.left = number_at(rectangle, 0);
    mask.top = number_at(rectangle, 1);
    mask.right = number_at(rectangle, 2);
    mask.bottom = number_at(rectangle, 3);
    for (const Json& value : get_member(entry, "values"))
      mask.values.push_back(value.is_number_unsigned() ? static_cast<std::uint8_t>(value.get<unsigned>())
                                                       : 0);
    const bool whole =
        mask.width > 0 && mask.height > 0 &&
        mask.values.size() == static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height);
    if (whole) findings.masks.push_back(std::move(mask));
  }
  return findings;
}

}  // namespace headroom::bench
