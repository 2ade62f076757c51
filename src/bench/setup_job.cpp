#include "bench/setup_job.h"

#include "base/json.h"

namespace headroom::bench {

Json to_json(const BenchOptions& options) {
  Json object;
  object["models"] = Json::array();
  for (const ModelSpec& model : options.models) {
    Json entry;
    entry["name"] = model.name;
    entry["path"] = model.path;
    entry["backend"] = model.backend;
    entry["task"] = model.task;
    set_if(entry, "confidence", model.confidence);
    set_if(entry, "iou", model.iou);
    set_if(entry, "device", model.device);
    entry["precision"] = name_of(model.precision);
    set_if(entry, "settings", model.settings);
    object["models"].push_back(std::move(entry));
  }
  if (options.source) {
    object["source_kind"] = static_cast<int>(options.source->kind);
    object["source_path"] = options.source->path;
    object["camera_index"] = options.source->camera_index;
  }
  object["backend"] = options.backend;
  object["task"] = options.task;
  object["device"] = options.device;
  object["precision"] = name_of(options.precision);
  object["conv_search"] = name_of(options.conv_search);
  object["capture_graph"] = options.capture_graph;
  object["image_size"] = options.image_size;
  object["confidence"] = options.confidence;
  object["iou"] = options.iou;
  object["max_frames"] = options.max_frames;
  object["warmup_frames"] = options.warmup_frames;
  set_if(object, "max_frames_in_memory", options.max_frames_in_memory);
  object["limit_videos"] = options.limit_videos;
  object["limit_objects"] = options.limit_objects;
  object["threads"] = options.threads;
  set_if(object, "memory_limit_bytes", options.memory_limit);
  set_if(object, "gpu_memory_limit", options.gpu_memory_limit);
  object["limit_mechanism"] = options.limit_mechanism;
  object["workspace_bytes"] = options.workspace.count;
  object["timeout_ns"] = options.timeout.count;
  object["metrics_interval_ns"] = options.metrics_interval.count;
  object["tune"] = options.tune;
  object["prepared_dir"] = options.prepared_dir;
  return object;
}

Result<BenchOptions> bench_options_from_json(const Json& document) {
  BenchOptions options;
  for (const Json& entry : get_member(document, "models")) {
    options.models.push_back({get_text(entry, "name"), get_text(entry, "path"), get_text(entry, "backend"),
                              get_text(entry, "task"), get_number(entry, "confidence"),
                              get_number(entry, "iou"), get_text(entry, "device"),
                              parse_precision(get_text(entry, "precision")).value_or(Precision::automatic)});
    options.models.back().settings = get_text(entry, "settings");
  }
  if (const auto kind = get_integer(document, "source_kind")) {
    if (*kind < 0 || *kind > 2) return internal_error("the setup job has an unknown source kind");
    options.source = SourceSpec{static_cast<SourceKind>(*kind), get_text(document, "source_path"),
                                static_cast<int>(get_integer(document, "camera_index").value_or(0))};
  }
  const auto integer = [&](const char* key, auto fallback) {
    return static_cast<decltype(fallback)>(get_integer(document, key).value_or(fallback));
  };
  options.backend = get_text(document, "backend");
  options.task = get_text(document, "task");
  options.device = get_text(document, "device");
  options.precision = parse_precision(get_text(document, "precision")).value_or(options.precision);
  options.conv_search = parse_conv_search(get_text(document, "conv_search")).value_or(options.conv_search);
  options.capture_graph = get_bool(document, "capture_graph").value_or(false);
  options.image_size = integer("image_size", options.image_size);
  options.confidence = get_number(document, "confidence").value_or(options.confidence);
  options.iou = get_number(document, "iou").value_or(options.iou);
  options.max_frames = integer("max_frames", options.max_frames);
  options.warmup_frames = integer("warmup_frames", options.warmup_frames);
  options.max_frames_in_memory = get_integer(document, "max_frames_in_memory");
  options.limit_videos = integer("limit_videos", options.limit_videos);
  options.limit_objects = integer("limit_objects", options.limit_objects);
  options.threads = integer("threads", options.threads);
  options.memory_limit = get_bytes(document, "memory_limit_bytes");
  options.gpu_memory_limit = get_text(document, "gpu_memory_limit");
  options.limit_mechanism = get_text(document, "limit_mechanism");
  options.workspace = get_bytes(document, "workspace_bytes").value_or(options.workspace);
  options.timeout = get_nanoseconds(document, "timeout_ns").value_or(options.timeout);
  options.metrics_interval =
      get_nanoseconds(document, "metrics_interval_ns").value_or(options.metrics_interval);
  options.tune = get_bool(document, "tune").value_or(false);
  options.prepared_dir = get_text(document, "prepared_dir");
  return options;
}

}  // namespace headroom::bench
