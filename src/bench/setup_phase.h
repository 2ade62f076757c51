// The setup phase: a process of its own that scans the source, proves each model in a child, tunes when asked
// to, writes the prepared data and exits, so that all the memory it used is gone before anything is measured.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interrupt.h"
#include "bench/prepared_data.h"
#include "model/bench_options.h"

namespace headroom::bench {

// The conductor's side: runs the setup process and reads what it prepared. `progress` gets a line at each
// step.
Result<PreparedData> run_setup_phase(const BenchOptions& options, Interrupt& interrupt,
                                     const std::function<void(const std::string&)>& progress);

// The setup process (hidden verb `_setup`) and its scanning child (`_scan`). Return exit codes.
int run_setup_process();
int run_scan_process();

}  // namespace headroom::bench
