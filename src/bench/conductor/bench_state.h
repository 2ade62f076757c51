// The state of a bench run: its options, its results so far, and how it prints progress and saves reports.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/metrics.h"
#include "bench/conductor/step_partner.h"
#include "bench/conductor/worker_account.h"
#include "bench/prepared_data.h"
#include "trace/device_account.h"
#include "types/bench_options.h"
#include "types/bench_result.h"

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
  std::optional<StepPartner> partner;                  // the other run of --in-step
  std::optional<trace::DeviceAccount> device_account;  // GPU memory; absent if no model runs on a GPU
  BenchResult result;
  PreparedData prepared;
  ProgressLine progress_line;
  Nanoseconds measuring_since;
  std::size_t measuring = 0;  // index in result.models of the model being measured
  bool interrupted = false;
  bool disk_warned = false;
  bool extra_failed = false;            // an extra run (measure_extras) could not be made
  std::filesystem::path metadata_path;  // the run's copy of the source's description, which the decoders read
};

// Prints the start of a step on the terminal and in the log.
void step(Run& run, const std::string& text);

// Warns once, when a report cannot be written. The run continues: its figures are printed at the end.
void note_disk_problem(Run& run, const Status& written);

// Writes report.json only.
void save_progress(Run& run);
// Writes all reports, so that a run that is killed now leaves complete reports of what it has measured.
void save_reports(Run& run);
// Saves the partial result of the model being measured, marked as cut short.
void save_partial_result(Run& run, ModelResult partial);
// Writes all reports at the end. The error names the file that could not be written.
Status save_finished(Run& run);

// --- The files in the run's folder.

// Writes report.json only. It is written after every model, so that the results remain if the conductor is
// killed. On a full disk, it removes other files of the run and tries again.
Status write_report_json(const BenchResult& result, const std::filesystem::path& folder);
// Writes frames/NAME.csv with the times of every frame, for headroom diff. Nothing without frames.
Status write_frame_times(const std::string& model, const KeptFrames& frames,
                         const std::filesystem::path& folder);

}  // namespace headroom::bench
