// What the conductor and a worker say to each other. The job goes in as one JSON document on the worker's
// standard input; events come back as JSON lines on descriptor 3, samples among them (sample_lines.h).
// Standard output and error belong to the model runtime and go to run.log.
//
// A worker's descriptors: 0 job, 1 and 2 log, 3 events, 4 socket to the decoder, 5 frame ring (memfd),
// 6 gate (only with `wait_for_gate`: one byte starts the measured run; its end lets a worker go that has
// measured its frames and has kept the device busy for the others since), 7 turns (only with `turns`,
// frame_turns.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/bench_result.h"
#include "model/runtime_settings.h"
#include "model/tensor.h"

namespace headroom::bench {

inline constexpr int kEventsFd = 3;
inline constexpr int kDecoderFd = 4;
inline constexpr int kFrameRingFd = 5;
inline constexpr int kGateFd = 6;
inline constexpr int kTurnsFd = 7;

enum class WorkerKind {
  setup,      // load and warm on dummy inputs; proves that the model works and says what it is
  tune,       // one trial of settings on dummy inputs
  inference,  // the measured run
  pipeline,   // all models in one process
  pool,       // the same, with a pool that keeps them inside a budget
};

struct WorkerModel {
  std::string name, path;
  std::string backend, backend_path;  // the plug-in's name and file
  std::string task;                   // forced, or empty
  RuntimeSettings settings;
  std::optional<double> confidence{}, iou{};  // absent: the job's
  // As an earlier worker learnt them, of a runtime that tells them only after a run; empty: not known.
  std::vector<TensorSpec> outputs{};
  // With a pool.
  std::int64_t every = 1;  // of every Nth frame
  bool isolated = false;   // in a process of its own
  // As it was measured alone, beside its runtime and the frames: most while it is loaded and warmed, and most
  // when it runs. 0: not known.
  Bytes load_peak = {}, run_peak = {};
};

// What the pool of a job is told (src/pool/pool.h).
struct WorkerPool {
  Bytes budget;
  Nanoseconds load_timeout;
  std::string events_to;     // a file for a line an event
  std::int64_t threads = 1;  // that ask for models at the same time
};

// Its frames are measured in turns with those of another run's worker.
struct WorkerTurns {
  bool first = false;                    // has the first turn
  Nanoseconds timeout{120'000'000'000};  // of a turn: then the other one is given up
};

// What the worker must know of a sequence; the decoder knows the rest.
struct WorkerSequence {
  std::string name;
  std::int64_t frames = 0;           // as the scan counted them; 0 for a camera
  std::vector<std::string> objects;  // ids; one unnamed object where the source has none
};

struct WorkerJob {
  WorkerKind kind = WorkerKind::setup;
  std::vector<WorkerModel> models;  // one, but for a pipeline and a pool
  int image_size = 640;
  double confidence = 0.25, iou = 0.45;
  std::int64_t max_frames = 300, warmup_frames = 10;
  std::int64_t window_frames = 1;  // most decoded frames in memory at once
  int sample_images = 0;
  std::vector<WorkerSequence> sequences;
  bool use_frames = false;  // descriptors 4 and 5 are there
  bool wait_for_gate = false;
  std::optional<WorkerPool> pool{};
  std::optional<WorkerTurns> turns{};
};

nlohmann::ordered_json to_json(const std::vector<TensorSpec>& tensors);
std::vector<TensorSpec> tensors_from_json(const nlohmann::ordered_json& document);

nlohmann::ordered_json to_json(const WorkerJob& job);
Result<WorkerJob> worker_job_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::bench
