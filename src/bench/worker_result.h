// The figures of a worker, out of what it said and what was seen of it: latencies, memory by phase, status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/latency_summary.h"
#include "bench/kept_frames.h"
#include "bench/memory_samples.h"
#include "bench/worker_account.h"
#include "model/bench_result.h"

namespace headroom::bench {

// `frames` are some.
LatencySummary inference_latency(const KeptFrames& frames);
// Of each frame what it took through all models of a pipeline, which must outlive it: pre-processing,
// inference and post-processing of each, and on request its decoding, once. A model that was cut short lacks
// the last frame.
analysis::ValuePieces times_through_all(const std::vector<ModelAccount>& models, bool with_decode);

struct WorkerOutcome {
  const std::string& label;  // the model's name
  const WorkerAccount& account;
  const MemorySamples& samples;
  const limits::MemoryLimit* limit;   // nullptr: none
  std::optional<Bytes> frame_memory;  // the frame ring's, of a worker that has one
  bool has_ended;
  std::vector<GpuMemory> gpu_memory;
};

// Of the first model. `account.status` and `account.error` are the verdict on the worker by now.
ModelResult result_of(const WorkerOutcome& outcome);

}  // namespace headroom::bench
