// A bench run under way: what it was asked, what it has shown so far, and how it speaks and saves.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/run_folder.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/interrupt.h"
#include "bench/metrics_recorder.h"
#include "bench/prepared_data.h"
#include "model/bench_options.h"
#include "model/bench_result.h"
#include "trace/device_account.h"

namespace headroom::bench {

struct Run {
  Run(const BenchOptions& asked, Interrupt listener, RunFolder made)
      : options(asked),
        interrupt(std::move(listener)),
        folder(std::move(made)),
        metrics(folder.path / "metrics.jsonl") {}

  const BenchOptions& options;
  Interrupt interrupt;
  RunFolder folder;
  MetricsRecorder metrics;
  std::optional<trace::DeviceAccount> device_account;  // of GPU memory; absent if no model runs on a GPU
  BenchResult result;
  PreparedData prepared;
  ProgressLine progress_line;
  Nanoseconds measuring_since;
  std::size_t measuring = 0;  // index of the model under way in result.models
  bool interrupted = false;
  bool disk_warned = false;
  bool extra_failed = false;            // a run that was asked for besides did not take place
  std::filesystem::path metadata_path;  // what the decoders read: the run's own copy
};

// A step begins: on the terminal, and in the log.
void step(Run& run, const std::string& text);

// A full disk is named once, at once, and ends nothing: the figures are still printed at the end.
void note_disk_problem(Run& run, const Status& written);

// report.json alone.
void save_progress(Run& run);
// All reports, so that a run that is killed now leaves what it has measured, as readable as a whole one.
void save_reports(Run& run);
// The same at the end. The error names what could not be written.
Status save_finished(Run& run);

}  // namespace headroom::bench
