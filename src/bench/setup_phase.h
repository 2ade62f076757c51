// The setup phase: a process of its own that scans the source, proves each model in a child, tunes when asked
// to, writes the prepared data and exits, so that all the memory it used is gone before anything is measured.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interrupt.h"
#include "bench/prepared_data.h"
#include "model/bench_options.h"

namespace headroom::bench {

struct SetupProgress {
  std::function<void(const std::string& text)> step;
  std::function<void(const std::string& text)> failure;  // a model that will not be measured
  std::function<void(std::int64_t frames, const std::string& sequence)>
      frames_scanned;  // about twice a second
  // What is known of a model, after each of its trials: a setup that is cut short leaves this.
  std::function<void(const PreparedModel& model)> model;
};

// The conductor's side: runs the setup process and gives what it prepared, from its own answer: another run
// may prepare the same folder at the same time. The source's description goes to `metadata`, and into the
// prepared folder with the rest.
Result<PreparedData> run_setup_phase(const BenchOptions& options, const std::filesystem::path& metadata,
                                     Interrupt& interrupt, const SetupProgress& progress);

// The setup process (hidden verb `_setup`) and its scanning child (`_scan`). Return exit codes.
int run_setup_process();
int run_scan_process();

}  // namespace headroom::bench
