#include "bench/prepared_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/protocol.h"
#include "bench/vos/setup.h"
#include "media/source_scan.h"
#include "media/streams/open_stream.h"
#include "sources/host_info.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr int kSetupSchemaVersion = 6;
constexpr const char* kRunSetup = "run again without --skip-setup to prepare it again";

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

Result<SourceMetadata> read_metadata(const fs::path& path) {
  auto text = read_file(path);
  if (!text) return forward_error(text);
  auto document = parse_json(*text, path.string());
  if (!document) return forward_error(document);
  return media::source_from_json(*document);
}

std::string this_host() {
  const HostInfo host = sources::read_host_info();
  return fmt::format("{}, {}", host.hostname, host.board.empty() ? host.cpu_model : host.board);
}

Json to_json(const PreparedData& data) {
  Json setup{{"schema_version", kSetupSchemaVersion}};
  if (data.source) setup["source"] = media::to_json(without_file_names(*data.source));
  setup.update(message_to_json(data));
  return setup;
}

Status write_prepared_data(const fs::path& folder, const PreparedData& data) {
  if (auto made = make_folder(folder); !made) return made;
  if (auto written = write_source(folder, data.source); !written) return written;
  return write_file_atomically(setup_path(folder), to_text(to_json(data)));
}

Result<PreparedData> read_prepared_data(const fs::path& folder) {
  const fs::path path = setup_path(folder);
  auto text = read_file(path, mebibytes(256));
  if (!text) {
    text.error().fix = "name its folder with --prepared-dir, or run without --skip-setup";
    return forward_error(text);
  }
  auto document = parse_json(*text, path.string());
  if (!document) return forward_error(document);
  return prepared_data_from_json(*document, folder);
}

Result<PreparedData> prepared_data_from_json(const Json& document, const fs::path& folder) {
  if (get_integer(document, "schema_version") != kSetupSchemaVersion)
    return tl::unexpected(not_usable(folder, "it was written by another version of Headroom"));
  auto data = message_from_json<PreparedData>(document);
  if (!data) return tl::unexpected(not_usable(folder, data.error().why));
  if (!document.contains("source")) return data;
  auto source = media::source_from_json(document["source"]);
  if (!source) return forward_error(source);
  data->source = std::move(*source);
  return data;
}

Precision precision_of(const ModelSpec& model, const BenchOptions& options) {
  return model.precision == Precision::automatic ? options.precision : model.precision;
}

namespace {

constexpr const char* kLimitFlags = "--mem-limit, --gpu-mem-limit or --limit-mechanism";

bool is_other_limit(const BenchOptions& a, const BenchOptions& b) {
  return a.memory_limit != b.memory_limit || a.gpu_memory_limit != b.gpu_memory_limit ||
         a.limit_mechanism != b.limit_mechanism;
}

// In which option the data differs; empty if it fits.
std::string difference(const PreparedData& data, const BenchOptions& options) {
  const BenchOptions& prepared = data.options;
  if (options.source && !data.source) return "it was prepared without --source";
  if (options.source && options.source->describe() != data.source->spec.describe())
    return fmt::format("it was prepared for --source {}, not {}", data.source->spec.describe(),
                       options.source->describe());
  if (options.vos != prepared.vos) return "it was prepared with other --dataset, --task or their options";
  if (data.source && !media::is_live(data.source->spec)) {
    const auto fingerprint =
        options.vos ? folder_fingerprint(options.vos->dataset) : media::source_fingerprint(data.source->spec);
    if (!fingerprint) return fingerprint.error().sentence();
    if (*fingerprint != data.source->fingerprint)
      return fmt::format("{} has changed since", data.source->spec.describe());
  }
  if (data.host != this_host()) return fmt::format("it was prepared on another machine ({})", data.host);
  if (prepared.image_size != options.image_size)
    return fmt::format("it was prepared with --imgsz {}, not {}", prepared.image_size, options.image_size);
  if (prepared.max_frames < options.max_frames || prepared.limit_videos != options.limit_videos ||
      prepared.limit_objects != options.limit_objects)
    return "it was prepared with other --max-frames, --limit-videos or --limit-objects";
  if (prepared.threads != options.threads)
    return fmt::format("it was prepared with --threads {}, not {}", prepared.threads, options.threads);
  if (prepared.device != options.device)
    return fmt::format("it was prepared for --device {}, not {}", prepared.device, options.device);
  if (!prepared.tune &&
      (options.conv_search != prepared.conv_search || options.capture_graph != prepared.capture_graph))
    return "it was prepared with another --conv-search or --capture-graph";
  if (options.tune && !prepared.tune) return "it was prepared without --tune";
  if (prepared.tune && is_other_limit(prepared, options))
    return fmt::format("its settings were tuned under another {}", kLimitFlags);
  return {};
}

std::string difference_of_model(const PreparedData& data, const ModelSpec& model, const BenchOptions& options,
                                const ModelFingerprint& fingerprint_of) {
  const BenchOptions& prepared = data.options;
  const auto found = std::ranges::find(data.models, model.name, &PreparedModel::name);
  if (found == data.models.end()) return fmt::format("it does not contain model {}", model.name);
  if (found->path != model.path)
    return fmt::format("its model {} is {}, not {}", model.name, found->path, model.path);
  if (found->fingerprint.empty()) return fmt::format("{} could not be read when it was prepared", model.path);
  const auto fingerprint = fingerprint_of(*found);
  if (!fingerprint) return fingerprint.error().sentence();
  if (*fingerprint != found->fingerprint) return fmt::format("{} has changed since", model.path);
  if (const std::string& device = device_of(model, options); device != found->settings.device)
    return fmt::format("model {} was prepared for the device {}, not {}", model.name, found->settings.device,
                       device);
  if (precision_of(model, options) != found->asked_precision)
    return fmt::format("model {} was prepared with another --precision", model.name);
  if (options.vos && model.prompt.value_or(options.vos->prompt) != found->asked_prompt)
    return fmt::format("model {} was prepared for another --prompt", model.name);
  if (model.settings != found->asked_settings)
    return fmt::format("model {} was prepared with other runtime settings", model.name);
  if ((model.task.empty() ? options.task : model.task) != found->forced_task)
    return fmt::format("model {} was prepared for another --task", model.name);
  const std::string& backend = model.backend.empty() ? options.backend : model.backend;
  if (!backend.empty() && backend != found->backend)
    return fmt::format("model {} was prepared for the backend {}", model.name, found->backend);
  const bool ran_out = found->status == ModelStatus::oom || found->objects_over_limit > 0;
  if (ran_out && is_other_limit(prepared, options))
    return fmt::format("model {} ran out of memory under another {}", model.name, kLimitFlags);
  if (found->status == ModelStatus::timeout && prepared.timeout != options.timeout)
    return fmt::format("model {} hung under another --timeout", model.name);
  return {};
}

}  // namespace

std::optional<Error> why_not_usable(const PreparedData& data, const BenchOptions& options,
                                    const ModelFingerprint& fingerprint_of) {
  std::string why = difference(data, options);
  for (const ModelSpec& model : options.models)
    if (why.empty()) why = difference_of_model(data, model, options, fingerprint_of);
  return why.empty() ? std::nullopt : std::optional(not_usable(options.prepared_dir, why));
}

}  // namespace headroom::bench
