// The part of a run before the measurement. The setup phase runs in a separate process. It scans the source,
// tries each model in a child, tunes the settings if requested, and writes the prepared data. Then it exits,
// so that all its memory is free before anything is measured.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "bench/conductor/bench_state.h"
#include "bench/conductor/child_process.h"
#include "bench/prepared_data.h"
#include "trace/device_account.h"
#include "types/bench_options.h"
#include "types/bench_result.h"
#include "types/runtime_settings.h"

namespace headroom::bench {

// Keys of the setup process's job and answer. The scan writes the source's description to the file in
// kMetadataKey, in the run folder. The answer has the data, because another run may prepare the same folder
// at the same time.
inline constexpr const char* kMetadataKey = "metadata_path";
inline constexpr const char* kPreparedKey = "prepared";
// With --task vos: the file of prepared videos in the run folder, and the model's facts (VosModelFacts) that
// frames are prepared for.
inline constexpr const char* kVideosKey = "videos_path";
inline constexpr const char* kModelKey = "model";

// A folder that cannot be written is wrong use, because nothing was measured yet.
tl::unexpected<Error> not_writable(Error error, const char* option);

// --- One model (model_preparation.cpp)

struct PreparationContext {
  const BenchOptions& options;
  Bytes frames_held;  // memory of decoded frames within the limit in the measured run; a trial has none
  Interrupt& interrupt;
  const trace::DeviceAccount* device_account;  // nullptr: no model runs on a GPU
  std::function<void(const std::string& step)> log_step;
  // called with the state of the model after each trial of --tune
  std::function<void(const PreparedModel& model)> report;
  // With --task vos: how many objects run together, in ascending order; at most kObjectsTogether.
  std::vector<std::int64_t> object_counts{};
  bool non_overlap = false;  // with --task vos: objects do not overlap
};

// The error of a model that takes frames in a run without a source.
inline constexpr const char* kNeedsSource = "this model takes frames: add --source";

// Chooses the backend, warms the model up in a child under the limit, and computes the fingerprint of its
// files. With --tune, it also searches the best settings. An error means that the whole setup must end. A
// model that fails is a result, not an error.
Result<PreparedModel> prepare_model(const ModelSpec& spec, const PreparationContext& context);

// --- --tune (tuner.cpp): finds the fastest runtime settings for one model within the limit, and the smallest
// among those that are nearly as fast. Each combination is tried in a separate child. So a combination that
// runs out of memory is only a row in the table.
struct TuneOutcome {
  RuntimeSettings fastest;                  // the fastest that fits
  std::optional<RuntimeSettings> smallest;  // the smallest peak within 5 % of the fastest
  std::vector<TuneTrial> trials;            // all trials, in the order of execution
};

// "Nearly as fast" for `smallest`.
inline constexpr double kNearlyAsFast = 1.05;

// Tries one combination. An error (interrupted) ends the search.
using TryFunction = std::function<Result<TuneTrial>(const RuntimeSettings&)>;

// Coordinate search: starts from `start` and changes one setting after another. It keeps a value that is at
// least 1 % faster, or as fast and smaller. This takes about a dozen trials instead of hundreds for all
// combinations, because a setting's effect hardly depends on the others.
//
// If `start` runs out of memory, exceeds the limit or times out, the search first adds one memory-saving
// setting after another until a trial fits. If none fits, the search ends. It also ends after three trials
// that timed out, because each takes all of --timeout.
Result<TuneOutcome> search_settings(const RuntimeSettings& start, int cores, const TryFunction& attempt);

// The files of a model: its main file, and the files next to it that contain its weights (ONNX external
// data). Every ONNX model above 2 GiB has such files.
struct ModelFiles {
  std::string fingerprint;  // over the content of all files; file_fingerprint() if there is one file
  Bytes size;               // sum of all files
};

// Reads all files of the model. Calls `on_piece` after each 64 KiB. Errors: those of file_fingerprint().
Result<ModelFiles> read_model_files(const std::filesystem::path& path, const std::function<void()>& on_piece);

// The same in a child process: if a mount hangs, only that model fails, not the setup. `timeout`: longest
// time without an event from the child. It sends one after each 64 KiB, at most twice a second. Errors: those
// of read_model_files(), a timeout (was_silent()), an interrupt (was_interrupted()).
Result<ModelFiles> fingerprint_in_child(const std::string& path, Nanoseconds timeout, Interrupt& interrupt);

// --- The conductor's side (preparation.cpp)

// Proves the memory limit and the GPU memory limit and stores both in the result. An error means wrong use. A
// limit that could not be proved is a warning.
Status prove_limits(Run& run);

// Sets run.prepared, run.metadata_path and the source in the result. An error ends the run.
Status prepare(Run& run);

// Report entries of models without measurements: of every requested model before the setup phase, of a model
// that failed in it, and of a model that passed it, until it is measured.
std::vector<ModelResult> models_not_reached(const BenchOptions& options);
ModelResult result_of_setup(const PreparedModel& model);
ModelResult not_yet_measured(const PreparedModel& model);

}  // namespace headroom::bench
