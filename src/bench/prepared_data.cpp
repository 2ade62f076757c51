#include "bench/prepared_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/protocol.h"
#include "media/source_json.h"
#include "media/source_scan.h"
#include "report/run/report_json.h"
#include "sources/host_info.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRunSetup = "run again without --skip-setup to prepare it again";

Json to_json(const TuneTrial& trial) {
  Json object;
  object["settings"] = report::to_json(trial.settings);
  object["status"] = name_of(trial.status);
  set_if(object, "error", trial.error);
  set_if(object, "p50_ns", trial.p50);
  set_if(object, "peak_bytes", trial.peak);
  set_if(object, "gpu_peak_bytes", trial.gpu_peak);
  set_if(object, "within_limit", trial.within_limit);
  return object;
}

Result<TuneTrial> trial_from_json(const Json& document) {
  TuneTrial trial;
  auto settings = report::settings_from_json(get_member(document, "settings"));
  if (!settings) return forward_error(settings);
  trial.settings = *settings;
  trial.status = parse_model_status(get_text(document, "status")).value_or(ModelStatus::failed);
  trial.error = get_text(document, "error");
  trial.p50 = get_nanoseconds(document, "p50_ns");
  trial.peak = get_bytes(document, "peak_bytes");
  trial.gpu_peak = get_bytes(document, "gpu_peak_bytes");
  trial.within_limit = get_bool(document, "within_limit");
  return trial;
}

SourceMetadata without_file_names(SourceMetadata source) {
  for (SourceSequence& sequence : source.sequences) {
    sequence.images.clear();
    for (SourceObject& object : sequence.objects) object.mask_path.clear();
  }
  return source;
}

Status write_source(const fs::path& folder, const std::optional<SourceMetadata>& source) {
  if (source) return write_file_atomically(metadata_path(folder), to_text(media::to_json(*source)));
  std::error_code ignored;
  fs::remove(metadata_path(folder), ignored);  // left by an earlier setup
  return {};
}

Error not_usable(const fs::path& folder, std::string why) {
  return Error{ErrorKind::usage, fmt::format("the prepared data in {} cannot be used", folder.string()),
               std::move(why), kRunSetup};
}

}  // namespace

fs::path metadata_path(const fs::path& folder) { return folder / "metadata.json"; }
fs::path setup_path(const fs::path& folder) { return folder / "setup.json"; }

std::string this_host() {
  const HostInfo host = sources::read_host_info();
  return fmt::format("{}, {}", host.hostname, host.board.empty() ? host.cpu_model : host.board);
}

Json to_json(const PreparedModel& model) {
  Json object;
  object["name"] = model.name;
  object["path"] = model.path;
  object["fingerprint"] = model.fingerprint;
  set_if(object, "file_size_bytes", model.file_size);
  object["backend"] = model.backend;
  object["backend_path"] = model.backend_path;
  object["backend_version"] = model.backend_version;
  set_if(object, "passed_over", model.passed_over);
  set_if(object, "forced_task", model.forced_task);
  object["task"] = model.task;
  object["input"] = model.input;
  object["takes_frames"] = model.takes_frames;
  if (!model.class_names.empty()) object["class_names"] = model.class_names;
  if (model.asked_precision != Precision::automatic)
    object["asked_precision"] = name_of(model.asked_precision);
  set_if(object, "asked_settings", model.asked_settings);
  if (!model.outputs.empty()) object["outputs"] = to_json(model.outputs);
  object["status"] = name_of(model.status);
  set_if(object, "error", model.error);
  if (model.trial) object["trial"] = report::to_json(*model.trial);
  object["settings"] = report::to_json(model.settings);
  if (model.smallest_settings) object["smallest_settings"] = report::to_json(*model.smallest_settings);
  for (const TuneTrial& trial : model.trials) object["trials"].push_back(to_json(trial));
  return object;
}

Result<PreparedModel> prepared_model_from_json(const Json& document) {
  PreparedModel model;
  model.name = get_text(document, "name");
  model.path = get_text(document, "path");
  if (model.name.empty() || model.path.empty()) return input_error("a prepared model has no name or no path");
  model.fingerprint = get_text(document, "fingerprint");
  model.file_size = get_bytes(document, "file_size_bytes");
  model.backend = get_text(document, "backend");
  model.backend_path = get_text(document, "backend_path");
  model.backend_version = get_text(document, "backend_version");
  model.passed_over = get_text(document, "passed_over");
  model.forced_task = get_text(document, "forced_task");
  model.task = get_text(document, "task");
  model.input = get_text(document, "input");
  model.takes_frames = get_bool(document, "takes_frames").value_or(false);
  for (const Json& name : get_member(document, "class_names"))
    model.class_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  model.asked_precision =
      parse_precision(get_text(document, "asked_precision")).value_or(Precision::automatic);
  model.asked_settings = get_text(document, "asked_settings");
  model.outputs = tensors_from_json(get_member(document, "outputs"));
  const auto status = parse_model_status(get_text(document, "status"));
  if (!status) return input_error(fmt::format("the prepared model {} has an unknown status", model.name));
  model.status = *status;
  model.error = get_text(document, "error");
  if (document.contains("trial")) {
    auto trial = report::model_result_from_json(document["trial"]);
    if (!trial) return forward_error(trial);
    model.trial = std::move(*trial);
  }
  auto settings = report::settings_from_json(get_member(document, "settings"));
  if (!settings) return forward_error(settings);
  model.settings = *settings;
  if (document.contains("smallest_settings")) {
    auto smallest = report::settings_from_json(document["smallest_settings"]);
    if (!smallest) return forward_error(smallest);
    model.smallest_settings = *smallest;
  }
  for (const Json& entry : get_member(document, "trials")) {
    auto trial = trial_from_json(entry);
    if (!trial) return forward_error(trial);
    model.trials.push_back(*trial);
  }
  return model;
}

Json to_json(const PreparedData& data) {
  Json setup;
  setup["schema_version"] = kSetupSchemaVersion;
  setup["headroom_version"] = data.headroom_version;
  setup["created_at"] = data.created_at;
  setup["host"] = data.host;
  if (data.source) setup["source"] = media::to_json(without_file_names(*data.source));
  setup["max_frames"] = data.max_frames;
  setup["limit_videos"] = data.limit_videos;
  setup["limit_objects"] = data.limit_objects;
  setup["image_size"] = data.image_size;
  setup["threads"] = data.threads;
  setup["device"] = data.device;
  setup["tuned"] = data.tuned;
  set_if(setup, "memory_limit_bytes", data.memory_limit);
  set_if(setup, "gpu_memory_limit", data.gpu_memory_limit);
  setup["conv_search"] = name_of(data.conv_search);
  setup["capture_graph"] = data.capture_graph;
  setup["limit_mechanism"] = data.limit_mechanism;
  setup["timeout_ns"] = data.timeout.count;
  setup["models"] = Json::array();
  for (const PreparedModel& model : data.models) setup["models"].push_back(to_json(model));
  return setup;
}

Status write_prepared_data(const fs::path& folder, const PreparedData& data) {
  if (auto made = make_folder(folder); !made) return made;
  if (auto written = write_source(folder, data.source); !written) return written;
  return write_file_atomically(setup_path(folder), to_text(to_json(data)));
}

Result<PreparedData> read_prepared_data(const fs::path& folder) {
  const auto read = [&](const fs::path& path) -> Result<Json> {
    auto text = read_file(path, mebibytes(256));
    if (!text) {
      text.error().fix = "name its folder with --prepared-dir, or run without --skip-setup";
      return forward_error(text);
    }
    return parse_json(*text, path.string());
  };
  auto setup = read(setup_path(folder));
  if (!setup) return forward_error(setup);
  return prepared_data_from_json(*setup, folder);
}

Result<PreparedData> prepared_data_from_json(const Json& document, const fs::path& folder) {
  const Json* const setup = &document;
  if (get_integer(*setup, "schema_version").value_or(0) != kSetupSchemaVersion)
    return tl::unexpected<Error>(not_usable(folder, "it was written by another version of Headroom"));
  PreparedData data;
  if (setup->contains("source")) {
    auto source = media::source_from_json(get_member(*setup, "source"));
    if (!source) return forward_error(source);
    data.source = std::move(*source);
  }
  data.headroom_version = get_text(*setup, "headroom_version");
  data.created_at = get_text(*setup, "created_at");
  data.host = get_text(*setup, "host");
  data.max_frames = get_integer(*setup, "max_frames").value_or(0);
  data.limit_videos = get_integer(*setup, "limit_videos").value_or(0);
  data.limit_objects = get_integer(*setup, "limit_objects").value_or(0);
  data.image_size = static_cast<int>(get_integer(*setup, "image_size").value_or(0));
  data.threads = static_cast<int>(get_integer(*setup, "threads").value_or(0));
  data.device = get_text(*setup, "device");
  data.tuned = get_bool(*setup, "tuned").value_or(false);
  data.memory_limit = get_bytes(*setup, "memory_limit_bytes");
  data.gpu_memory_limit = get_text(*setup, "gpu_memory_limit");
  data.conv_search = parse_conv_search(get_text(*setup, "conv_search")).value_or(ConvSearch::exhaustive);
  data.capture_graph = get_bool(*setup, "capture_graph").value_or(false);
  data.limit_mechanism = get_text(*setup, "limit_mechanism");
  data.timeout = get_nanoseconds(*setup, "timeout_ns").value_or(Nanoseconds{});
  for (const Json& entry : get_member(*setup, "models")) {
    auto model = prepared_model_from_json(entry);
    if (!model) return forward_error(model);
    data.models.push_back(std::move(*model));
  }
  return data;
}

Precision precision_of(const ModelSpec& model, const BenchOptions& options) {
  return model.precision == Precision::automatic ? options.precision : model.precision;
}

std::optional<Error> why_not_usable(const PreparedData& data, const BenchOptions& options,
                                    const ModelFingerprint& fingerprint_of) {
  const fs::path folder = options.prepared_dir;
  if (options.source && !data.source) return not_usable(folder, "it was prepared without --source");
  if (options.source && options.source->describe() != data.source->spec.describe())
    return not_usable(folder, fmt::format("it was prepared for --source {}, not {}",
                                          data.source->spec.describe(), options.source->describe()));
  if (data.source && data.source->spec.kind != SourceKind::camera) {
    const auto fingerprint = media::source_fingerprint(data.source->spec);
    if (!fingerprint) return not_usable(folder, fingerprint.error().sentence());
    if (*fingerprint != data.source->fingerprint)
      return not_usable(folder, fmt::format("{} has changed since", data.source->spec.describe()));
  }
  if (data.host != this_host())
    return not_usable(folder, fmt::format("it was prepared on another machine ({})", data.host));
  if (data.image_size != options.image_size)
    return not_usable(
        folder, fmt::format("it was prepared with --imgsz {}, not {}", data.image_size, options.image_size));
  if (data.max_frames < options.max_frames || data.limit_videos != options.limit_videos ||
      data.limit_objects != options.limit_objects)
    return not_usable(folder, "it was prepared with other --max-frames, --limit-videos or --limit-objects");
  if (data.threads != options.threads)
    return not_usable(
        folder, fmt::format("it was prepared with --threads {}, not {}", data.threads, options.threads));
  if (data.device != options.device)
    return not_usable(folder,
                      fmt::format("it was prepared for --device {}, not {}", data.device, options.device));
  if (!data.tuned && options.conv_search != data.conv_search)
    return not_usable(folder, "it was prepared with another --conv-search");
  if (!data.tuned && options.capture_graph != data.capture_graph)
    return not_usable(folder, "it was prepared with another --capture-graph");
  if (options.tune && !data.tuned) return not_usable(folder, "it was prepared without --tune");
  if (data.tuned &&
      (data.memory_limit != options.memory_limit || data.gpu_memory_limit != options.gpu_memory_limit))
    return not_usable(folder, "its settings were tuned under another --mem-limit or --gpu-mem-limit");
  // Which settings fit depends on what the mechanism counts.
  if (data.tuned && data.memory_limit && data.limit_mechanism != options.limit_mechanism)
    return not_usable(folder, "its settings were tuned under another --limit-mechanism");
  for (const ModelSpec& model : options.models) {
    const auto same = [&](const PreparedModel& prepared) { return prepared.name == model.name; };
    const auto found = std::find_if(data.models.begin(), data.models.end(), same);
    if (found == data.models.end())
      return not_usable(folder, fmt::format("it does not contain model {}", model.name));
    if (found->path != model.path)
      return not_usable(folder,
                        fmt::format("its model {} is {}, not {}", model.name, found->path, model.path));
    if (found->fingerprint.empty())
      return not_usable(folder, fmt::format("{} could not be read when it was prepared", model.path));
    const auto fingerprint = fingerprint_of(*found);
    if (!fingerprint) return not_usable(folder, fingerprint.error().sentence());
    if (*fingerprint != found->fingerprint)
      return not_usable(folder, fmt::format("{} has changed since", model.path));
    const std::string& device = device_of(model, options);
    if (device != found->settings.device)
      return not_usable(folder, fmt::format("model {} was prepared for the device {}, not {}", model.name,
                                            found->settings.device, device));
    if (precision_of(model, options) != found->asked_precision)
      return not_usable(folder, fmt::format("model {} was prepared with another --precision", model.name));
    if (model.settings != found->asked_settings)
      return not_usable(folder, fmt::format("model {} was prepared with other runtime settings", model.name));
    const std::string& task = model.task.empty() ? options.task : model.task;
    if (task != found->forced_task)
      return not_usable(folder, fmt::format("model {} was prepared for another --task", model.name));
    const std::string& backend = model.backend.empty() ? options.backend : model.backend;
    if (!backend.empty() && backend != found->backend)
      return not_usable(folder,
                        fmt::format("model {} was prepared for the backend {}", model.name, found->backend));
    if (found->status == ModelStatus::oom &&
        (data.memory_limit != options.memory_limit || data.limit_mechanism != options.limit_mechanism ||
         data.gpu_memory_limit != options.gpu_memory_limit))
      return not_usable(
          folder,
          fmt::format(
              "model {} ran out of memory under another --mem-limit, --gpu-mem-limit or --limit-mechanism",
              model.name));
    if (found->status == ModelStatus::timeout && data.timeout.count != options.timeout.count)
      return not_usable(folder, fmt::format("model {} hung under another --timeout", model.name));
  }
  return std::nullopt;
}

}  // namespace headroom::bench
