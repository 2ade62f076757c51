// The data that the setup phase prepares for the inference phase: a folder with two files.
// - metadata.json: the source with the name of every image, for the decoder; absent without a source.
// - setup.json: each model with its task and settings, and a summary of the source. The conductor never holds
//   the names of 200,000 images. Headroom rejects data that was prepared for other options, or that is older
//   than its source or models, and reports the reason.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/bench_options.h"
#include "types/bench_result.h"
#include "types/tensor.h"

namespace headroom::bench {

// One model as the setup phase found it.
struct PreparedModel {
  std::string name, path;
  std::string fingerprint;  // of the model's files (conductor/setup_phase.h)
  std::optional<Bytes> file_size;
  std::string backend, backend_path, backend_version;
  std::string passed_over;  // why a preferred backend could not be loaded; may be empty
  std::string forced_task;  // as requested; empty: recognised
  std::string task, input;
  Precision asked_precision = Precision::automatic;
  std::string asked_settings;       // as written in --model: "arena=off"
  std::vector<TensorSpec> outputs;  // learnt from a run, if the runtime reports them only then
  bool takes_frames = false;
  std::string without_task;  // why a model that takes pictures has no task; empty if it has, or takes none
  std::vector<std::string> class_names;
  ModelStatus status = ModelStatus::skipped;
  std::string error;
  bool is_refused = false;  // not kept in files; with --task vos: its files cannot track objects
  // The result of the warm-up with the final settings: all figures if the model failed, else its memory only.
  std::optional<ModelResult> trial;
  RuntimeSettings settings;  // the inference phase uses these
  std::optional<RuntimeSettings> smallest_settings;
  std::vector<TuneTrial> trials;
  std::optional<PromptKind> asked_prompt;  // with --task vos
  std::optional<VosResult> vos;            // of the warm-up: the input's size and the trials
  // The fewest objects at a time with which a trial ran out of memory, and why; 0: none did. The model runs
  // videos with fewer.
  std::int64_t objects_over_limit = 0;
  std::string why_over_limit;
};

struct PreparedData {
  std::string headroom_version, created_at, host;
  // Read back without the names of images and masks. Absent: all inputs are made from the models' signatures.
  std::optional<SourceMetadata> source;
  std::optional<VosSource> vos;  // --task vos
  // As requested. setup.json keeps those that the prepared data depends on.
  BenchOptions options;
  std::vector<PreparedModel> models;
};

std::filesystem::path metadata_path(const std::filesystem::path& folder);
std::filesystem::path setup_path(const std::filesystem::path& folder);
// Reads metadata.json.
Result<SourceMetadata> read_metadata(const std::filesystem::path& path);

Status write_prepared_data(const std::filesystem::path& folder, const PreparedData& data);
Result<PreparedData> read_prepared_data(const std::filesystem::path& folder);

// The requested precision of a model, or the run's precision if the model has none.
Precision precision_of(const ModelSpec& model, const BenchOptions& options);

// Returns the reason why this data does not fit these options, or nothing if it fits. The source, a model
// file, the machine, the limits or the settings may differ. A model may not be prepared, or it ran out of
// memory under another limit. `fingerprint_of` reads the model's files as they are now.
using ModelFingerprint = std::function<Result<std::string>(const PreparedModel& model)>;
std::optional<Error> why_not_usable(const PreparedData& data, const BenchOptions& options,
                                    const ModelFingerprint& fingerprint_of);

// "hostname, CPU model": settings that were tuned on another machine do not apply.
std::string this_host();

// setup.json as a document. The setup process also sends it as its answer, because another run may prepare
// the same folder meanwhile.
nlohmann::ordered_json to_json(const PreparedData& data);
Result<PreparedData> prepared_data_from_json(const nlohmann::ordered_json& document,
                                             const std::filesystem::path& folder);

}  // namespace headroom::bench
