// What the setup phase leaves for the inference phase: a folder with metadata.json (the source with the name
// of every image, for the decoder; none without a source) and setup.json (each model, its task and its
// settings, and the source in short: the conductor never holds the names of 200,000 images). Data that was
// prepared for something else, or that is older than what it describes, is refused with the reason.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/bench_options.h"
#include "model/bench_result.h"
#include "model/tensor.h"

namespace headroom::bench {

inline constexpr int kSetupSchemaVersion = 5;

// One model as the setup phase found it.
struct PreparedModel {
  std::string name, path;
  std::string fingerprint;  // of the model's files (model_files.h)
  std::optional<Bytes> file_size;
  std::string backend, backend_path, backend_version;
  std::string passed_over;  // a sentence, if a backend that comes before could not be loaded
  std::string forced_task;  // as asked for; empty: recognised
  std::string task, input;
  Precision asked_precision = Precision::automatic;
  std::string asked_settings;       // as --model had them: "arena=off"
  std::vector<TensorSpec> outputs;  // learnt by a run, of a runtime that tells them only then
  bool takes_frames = false;
  std::vector<std::string> class_names;
  ModelStatus status = ModelStatus::skipped;
  std::string error;
  // What the warm-up showed, with the settings that are kept: of a model that failed all that was measured,
  // of one that came through its memory alone.
  std::optional<ModelResult> trial;
  RuntimeSettings settings;  // what the inference phase uses
  std::optional<RuntimeSettings> smallest_settings;
  std::vector<TuneTrial> trials;
};

struct PreparedData {
  std::string headroom_version, created_at, host;
  // Read back without the names of images and masks. Absent: all inputs are made from the models' signatures.
  std::optional<SourceMetadata> source;
  std::int64_t max_frames = 0, limit_videos = 0, limit_objects = 0;
  int image_size = 0, threads = 0;
  std::string device;
  bool tuned = false;
  std::optional<Bytes> memory_limit;  // under which the models were tried
  std::string gpu_memory_limit;
  ConvSearch conv_search = ConvSearch::exhaustive;  // as they were asked for
  bool capture_graph = false;
  std::string limit_mechanism;  // as it was asked for
  Nanoseconds timeout;          // after which a quiet model counted as hung
  std::vector<PreparedModel> models;
};

std::filesystem::path metadata_path(const std::filesystem::path& folder);
std::filesystem::path setup_path(const std::filesystem::path& folder);

Status write_prepared_data(const std::filesystem::path& folder, const PreparedData& data);
Result<PreparedData> read_prepared_data(const std::filesystem::path& folder);

// What is asked for of a model: its own word, or that of all.
Precision precision_of(const ModelSpec& model, const BenchOptions& options);

// Why this data cannot serve these options, or nothing: another source, a source or model file that changed
// since, another machine, other limits or settings, a model that was not prepared, a verdict of "out of
// memory" that was found under another limit.
// `fingerprint_of` reads the model's files as they are now.
using ModelFingerprint = std::function<Result<std::string>(const PreparedModel& model)>;
std::optional<Error> why_not_usable(const PreparedData& data, const BenchOptions& options,
                                    const ModelFingerprint& fingerprint_of);

// "hostname, CPU model": settings tuned on one machine are foreign to another.
std::string this_host();

// setup.json as a document. The setup process also answers with it: another run may prepare the same folder
// meanwhile.
nlohmann::ordered_json to_json(const PreparedData& data);
Result<PreparedData> prepared_data_from_json(const nlohmann::ordered_json& document,
                                             const std::filesystem::path& folder);

// One model's JSON form, for tests.
nlohmann::ordered_json to_json(const PreparedModel& model);
Result<PreparedModel> prepared_model_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::bench
