// The setup phase runs in a separate process. It scans the source, tries each model in a child, tunes the
// settings if requested, and writes the prepared data. Then it exits, so that all its memory is free before
// anything is measured.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interrupt.h"
#include "bench/prepared_data.h"
#include "types/bench_options.h"

namespace headroom::bench {

struct SetupProgress {
  std::function<void(const std::string& text)> step;
  std::function<void(const std::string& text)> failure;  // a model that failed and will not be measured
  std::function<void(std::int64_t frames, const std::string& sequence)>
      frames_scanned;  // called about twice a second
  // The state of a model after each of its trials, so that an interrupted setup leaves it in the report.
  std::function<void(const PreparedModel& model)> model;
};

// The conductor's side. Runs the setup process and returns the data from its answer. It does not read the
// folder, because another run may prepare the same folder at the same time. The source's description is
// written to `metadata` and to the prepared folder.
Result<PreparedData> run_setup_phase(const BenchOptions& options, const std::filesystem::path& metadata,
                                     Interrupt& interrupt, const SetupProgress& progress);

// The setup process (hidden verb `_setup`) and its scanning child (`_scan`). They return exit codes.
int run_setup_process();
int run_scan_process();

}  // namespace headroom::bench
