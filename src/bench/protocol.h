// The protocol between the conductor and a worker. The job goes in as one JSON document on the worker's
// standard input. Events come back as JSON lines on descriptor 3, with samples among them
// (annotated_samples.h). Standard output and error belong to the model runtime and go to run.log.
//
// A worker's descriptors:
// - 0: job
// - 1 and 2: log
// - 3: events
// - 4: socket to the decoder
// - 5: frame ring (memfd)
// - 6: gate (only with `wait_for_gate`). One byte starts the measured run. After its own measured frames, a
//   worker keeps the device busy for the others until the gate is closed.
// - 7: turns (only with `turns`, worker/frames.h)
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "types/bench_options.h"
#include "types/bench_result.h"
#include "types/runtime_settings.h"
#include "types/tensor.h"

namespace headroom::bench {

inline constexpr int kEventsFd = 3;
inline constexpr int kDecoderFd = 4;
inline constexpr int kFrameRingFd = 5;
inline constexpr int kGateFd = 6;
inline constexpr int kTurnsFd = 7;

enum class WorkerKind {
  setup,      // load the model and warm it up on dummy inputs: proves that it works
  tune,       // one trial of settings on dummy inputs
  inference,  // the measured run
  pipeline,   // all models in one process
  pool,       // all models in one process, where a pool keeps them within a budget
};
std::string_view name_of(WorkerKind kind);

struct WorkerModel {
  std::string name, path;
  std::string backend, backend_path;  // the plug-in's name and file
  std::string task;                   // forced, or empty
  RuntimeSettings settings;
  std::optional<double> confidence{}, iou{};  // absent: the job's
  // As an earlier worker learnt them, for a runtime that reports them only after a run; empty: unknown.
  std::vector<TensorSpec> outputs{};
  // Only with a pool.
  std::int64_t every = 1;  // runs on every Nth frame
  bool isolated = false;   // in a separate process
  // Measured alone, without its runtime and frames: the peak of load and warm-up, and the peak of the run. 0:
  // unknown.
  Bytes load_peak = {}, run_peak = {};
};

// The options of a job's pool (src/pool/pool.h).
struct WorkerPool {
  Bytes budget;
  Nanoseconds load_timeout;
  std::string events_to;     // a file with one line per event
  std::int64_t threads = 1;  // number of threads that request models at the same time
};

// The worker measures its frames in turns with another run's worker.
struct WorkerTurns {
  bool first = false;                    // has the first turn
  Nanoseconds timeout{120'000'000'000};  // longest turn of the partner; then this worker continues alone
};

// A sequence as the worker needs it; the decoder knows the rest.
struct WorkerSequence {
  std::string name;
  std::int64_t frames = 0;           // as counted by the scan; 0 for a camera
  std::vector<std::string> objects;  // ids; empty: one unnamed object
};

// The most objects of a video that share a run of a graph (objects_per_run of the tracker).
inline constexpr std::int64_t kObjectsTogether = 4;

// A job of --task vos.
struct WorkerVos {
  PromptKind prompt = PromptKind::points;
  VosProfile profile = VosProfile::predictor;
  VosObjects objects = VosObjects::together;
  PlaneType plane_type = PlaneType::uint8;
  bool non_overlap = false;
  std::int64_t most_objects = 1;      // for the setup's trial
  std::string videos;                 // a file of prepared videos (vos/videos.h)
  std::string planes;                 // folder of their frames (media/vos/planes.h)
  std::string masks_to;               // a file for the masks to score (vos/mask_lines.h)
  std::vector<std::string> left_out;  // videos that would not fit under the limit
};

struct WorkerJob {
  WorkerKind kind = WorkerKind::setup;
  std::vector<WorkerModel> models;  // one, except for a pipeline or a pool
  int image_size = 640;
  double confidence = 0.25, iou = 0.45;
  std::int64_t max_frames = 300, warmup_frames = 10;
  std::int64_t window_frames = 1;  // largest number of decoded frames in memory
  int sample_images = 0;
  std::vector<WorkerSequence> sequences;
  bool use_frames = false;  // descriptors 4 and 5 are open
  bool wait_for_gate = false;
  std::optional<WorkerPool> pool{};
  std::optional<WorkerTurns> turns{};
  std::optional<WorkerVos> vos{};
};

// --- Events of a worker. The conductor keeps them as its account of the worker (conductor/worker_account.h).

// The memory of a GPU since the last reading, by the ledger of the preload library.
struct LedgerReading {
  unsigned ordinal = 0;
  Bytes charged, peak, pinned;
  std::int64_t refused = 0;  // requests
  Bytes refused_bytes;
};
// The memory of the process on a GPU, by the driver.
struct DriverReading {
  std::string uuid;
  Bytes used;
};
struct GpuReading {
  std::vector<LedgerReading> ledger;
  std::vector<DriverReading> driver;
};

// "phase": the end of a phase. The worker reads its resident bytes and its peak itself.
struct PhaseAccount {
  Phase phase = Phase::start;
  Nanoseconds time;  // by the monotonic clock; in the account: since the worker's start
  std::optional<Bytes> resident{}, peak{}, data{}, file_backed{};
  std::optional<Nanoseconds> cpu_time{};
  bool peak_was_reset = false;
  GpuReading gpu{};
};

// "runtime": the libraries are loaded.
struct RuntimeFacts {
  std::string version;
  std::optional<Nanoseconds> load_time{};
  std::optional<bool> fixed_addresses{}, telemetry{};  // telemetry: absent if the runtime has none
};

// "device": a GPU is initialised.
struct DeviceFacts {
  unsigned ordinal = 0;
  std::string device, name, uuid;
  Bytes total;
  bool is_integrated = false;
};

// "model": a model is loaded. Of a pool, which loads models later, only the name.
struct ModelFacts {
  std::string name, task{}, input{};
  bool takes_frames = false;
  std::string without_task{};  // why a model that takes pictures has no task
  std::vector<std::string> class_names{};
  std::optional<Nanoseconds> load_time{};
  std::optional<NodePlacement> placement{};
  std::optional<Precision> precision{};  // that the runtime computes in, if it reports one
  std::vector<TensorSpec> outputs{};     // learnt from a run
};

// "measuring": the measured run begins.
struct MeasuringStart {
  Nanoseconds time, warmup, cpu_time;
};

// "error": the model failed (ModelStatus::failed or oom).
struct WorkerError {
  ModelStatus kind = ModelStatus::failed;
  std::string message;
  std::optional<Bytes> peak{};  // since the last phase
  GpuReading gpu{};
  bool is_input = false;  // ErrorKind::input
};

// "pool": the pool's counters so far, and the times since the last event.
struct PooledAccount {
  PooledModel counters;
  std::vector<std::int64_t> loads, waits;  // ns
};
struct PoolAccount {
  std::vector<PooledAccount> models;  // in the order of the job
  std::vector<std::int64_t> frames;   // ns for all models that a frame runs
  std::optional<Bytes> baseline, books_peak, peak;
  std::optional<Nanoseconds> load_time, reload_time;
  std::int64_t samples = 0, samples_over = 0;
};

// "vos_model": what follows from the model's graphs.
struct VosModelFacts {
  int side = 0;
  std::string label{};                            // as of VosResult
  std::vector<double> pixel_mean{}, pixel_std{};  // of the manifest
};
// "vos_progress": what the worker tracks from now on. Without a video: it has tracked all of them.
struct VosProgress {
  std::string video{}, object{};         // object: only if it runs alone
  std::int64_t objects = 1, frames = 0;  // frames: 0 if none is measured
};
// "vos_clip": after a clip and its cleaning. Its peaks are those of the phase `running` before it.
struct VosClipEnd {
  VosClip clip;
  Bytes bank;
  bool has_lost_masks = false;  // they could not be written, so the clip has no score
};
// "vos_object" is a VosObjectEnd. "vos_load": after an unloading of the model.
struct VosLoadEnd {
  Bytes after;
  std::optional<Bytes> gpu_after;
};
// The answer of the process that scores the masks.
struct VosScores {
  std::vector<VosObjectScore> scores;
  std::vector<std::string> images;  // paths inside the run folder
  std::string problem;              // why some are missing; empty if none is
};

// A message as JSON. The fields of each are listed once, in protocol.cpp. A job, an event above, CleanupPoint
// ("cleanup"), InStep ("in_step"), VosTrial ("vos_trial"), VosObjectEnd, VosScores, PreparedModel or
// PreparedData (without its source).
template <class Message>
nlohmann::ordered_json message_to_json(const Message& message);
template <class Message>
Result<Message> message_from_json(const nlohmann::ordered_json& document);

// The options that the setup process needs.
nlohmann::ordered_json to_json(const BenchOptions& options);
Result<BenchOptions> bench_options_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::bench
