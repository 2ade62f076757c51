// Computes the figures of a worker from its events and the samples of it: latencies, memory by phase, status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/conductor/kept_frames.h"
#include "bench/conductor/memory_samples.h"
#include "bench/conductor/phase_figures.h"
#include "monitoring/latency_summary.h"
#include "types/bench_result.h"

namespace headroom::bench {

// `frames` must not be empty.
LatencySummary inference_latency(const KeptFrames& frames);
// The time of each frame through all models of a pipeline: preprocessing, inference and postprocessing of
// each model and, with `with_decode`, its decoding, once. `models` must outlive the result. If a model was
// cut short, its last frame is missing.
monitoring::ValuePieces times_through_all(const std::vector<ModelAccount>& models, bool with_decode);

struct WorkerOutcome {
  const std::string& label;  // the model's name
  const WorkerAccount& account;
  const MemorySamples& samples;
  const limits::MemoryLimit* limit;   // nullptr: no limit
  std::optional<Bytes> frame_memory;  // size of the frame ring, if the worker has one
  bool has_ended;
  std::vector<GpuMemory> gpu_memory;
};

// The result of the first model. `account.status` and `account.error` hold the verdict on the worker.
ModelResult result_of(const WorkerOutcome& outcome);

}  // namespace headroom::bench
