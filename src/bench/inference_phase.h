// The inference phase: what was prepared is measured, each model alone in a fresh process; then, when asked
// for, all at once (--parallel) and all in one process (--pipeline).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/interrupt.h"
#include "bench/kept_frames.h"
#include "bench/metrics_recorder.h"
#include "bench/prepared_data.h"
#include "bench/step_partner.h"
#include "bench/worker_run.h"
#include "model/bench_options.h"
#include "model/bench_result.h"

namespace headroom::bench {

// What the phases of one run share.
struct BenchContext {
  const BenchOptions& options;
  const PreparedData& prepared;
  // The run's own copy of the source's description: another run may prepare the shared folder anew meanwhile.
  std::string metadata_path;
  std::filesystem::path run_folder;
  trace::DeviceAccount* device_account;  // nullptr: no model runs on a GPU
  Interrupt& interrupt;
  MetricsRecorder& metrics;
  StepPartner* partner;  // nullptr: no other run takes turns with this one
  // A line of progress: label, fraction in [0, 1] or negative, detail.
  std::function<void(const std::string&, double, const std::string&)> progress;
  // What a model that is being measured has shown so far, every few seconds.
  std::function<void(ModelResult)> partial_result;
};

// One measured model: its result, and frames worth drawing.
struct MeasuredModel {
  ModelResult result;
  std::filesystem::path samples_path;  // sample_lines.h; absent if there are none
  std::vector<std::string> class_names;
  KeptFrames frames;
  std::int64_t frames_held = 0;
  bool interrupted = false;
};

Result<MeasuredModel> measure_alone(const BenchContext& context, const PreparedModel& model);
// These two also give what a run that was interrupted had shown; its models say so.
Result<ParallelResult> measure_together(const BenchContext& context, const std::vector<ModelResult>& alone);
Result<PipelineResult> measure_pipeline(const BenchContext& context, std::vector<std::string>& warnings);

}  // namespace headroom::bench
