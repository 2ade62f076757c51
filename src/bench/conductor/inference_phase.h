// The inference phase: each prepared model runs alone in a fresh process. Then, if requested, all models run
// at the same time (--parallel) and all in one process (--pipeline).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/kept_frames.h"
#include "bench/conductor/measuring_child.h"
#include "bench/conductor/metrics_recorder.h"
#include "bench/conductor/step_partner.h"
#include "bench/interrupt.h"
#include "bench/prepared_data.h"
#include "types/bench_options.h"
#include "types/bench_result.h"

namespace headroom::bench {

// State shared by the phases of one run.
struct BenchContext {
  const BenchOptions& options;
  const PreparedData& prepared;
  // The run's copy of the source's description, because another run may rewrite the prepared folder
  // meanwhile.
  std::string metadata_path;
  std::filesystem::path run_folder;
  trace::DeviceAccount* device_account;  // nullptr: no model runs on a GPU
  Interrupt& interrupt;
  MetricsRecorder& metrics;
  StepPartner* partner;  // nullptr: without --in-step
  // Updates the progress line: label, fraction in [0, 1] or negative, detail.
  std::function<void(const std::string&, double, const std::string&)> progress;
  // Receives the partial result of the model being measured, every few seconds.
  std::function<void(ModelResult)> partial_result;
};

// One measured model: its result, and the frames to draw.
struct MeasuredModel {
  ModelResult result;
  std::filesystem::path samples_path;  // sample_lines.h; absent if there are none
  std::vector<std::string> class_names;
  KeptFrames frames;
  std::int64_t frames_held = 0;
  bool interrupted = false;
};

Result<MeasuredModel> measure_alone(const BenchContext& context, const PreparedModel& model);
// If the run is interrupted, the next two functions return the results so far, with the models marked as cut
// short.
Result<ParallelResult> measure_together(const BenchContext& context, const std::vector<ModelResult>& alone);
Result<PipelineResult> measure_pipeline(const BenchContext& context, std::vector<std::string>& warnings);

}  // namespace headroom::bench
