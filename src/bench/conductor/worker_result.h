// The result of a worker: result_of() computes a model's figures from the worker's events and its memory.
//
// MemorySamples is that memory, sampled from outside 20 times a second. It gives the memory curve and the
// mean. It also gives the peak of a worker that died before it reported one, and the violations of a limit
// that the kernel does not enforce.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/conductor/worker_account.h"
#include "limits/memory_limit.h"
#include "monitoring/latency_summary.h"
#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::bench {

struct MemorySamples {
  std::optional<Bytes> peak;      // since the start of the current phase
  std::optional<Bytes> run_peak;  // during the measured frames
  std::optional<Bytes> data_peak, pss_peak, pss_run_peak, file_backed_peak;
  std::int64_t violations = 0;
  std::vector<MemoryPoint> series;

  // Starts a new phase. `data` is the worker's own reading of ProcessMemory::data.
  void begin_phase(std::optional<Bytes> data);
  // Updates the peaks with a new sample. Called before the worker's next event is read, which may end this
  // phase.
  void add_peaks(Bytes resident, std::optional<Bytes> data, std::optional<Bytes> file_backed = {});
  // Adds the same sample, taken `time` after the worker's start; its resident bytes must be known.
  // `is_of_run`: between the first and the last measured frame. Counts a violation if the sample is over the
  // limit in the figure that the limit's mechanism uses (limit_peak()).
  void add(Nanoseconds time, const ProcessMemory& sample, bool is_of_run, const limits::MemoryLimit* limit);
  void add_share(Bytes pss, bool is_of_run);
  // Mean over the measured frames; absent if no sample was taken during them.
  std::optional<Bytes> run_mean() const;

 private:
  double run_sum_ = 0;
  std::int64_t run_samples_ = 0, stride_ = 1, passed_over_ = 0;
};

// Computes the figures of a worker from its events and the samples of it: latencies, memory by phase, status.
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
