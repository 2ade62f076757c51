// Samples of this machine (or of a tree under a root) at a steady pace.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "bench/interrupt.h"
#include "model/sample.h"
#include "watch/watch_options.h"

namespace headroom::watch {

// What ended the sampling.
struct LiveEnd {
  std::optional<ExitStatus> command;  // of the command that was followed
  bool followed_ended = false;        // the processes that were followed
  std::int64_t samples_late = 0;      // by more than an interval
  std::int64_t intervals_missed = 0;  // without a sample: the machine or this process stood still
};

// An error if there is neither /proc nor /sys under this root: a wrong path would be a machine without
// figures.
Status expect_machine(const std::filesystem::path& root);

// Takes a sample at each interval from the start on, for as long as `on_sample` says true; one that comes too
// late is taken at once and the missed ones are counted, so samples never bunch up. Until the duration is
// over, a signal comes, or what is followed ends; with a last one when a command has ended. The wall clock
// may jump: time is the steady clock's since the start. Errors: a tree without /proc and /sys, a process
// that is not there, a command that cannot be started.
Result<LiveEnd> sample_live(const WatchOptions& options, bench::Interrupt& interrupt,
                            const std::function<bool(SystemSample& sample)>& on_sample);

// Sums over the followed processes, in sample.other: their number, resident, proportional, swapped, GPU
// memory. The resident sum counts shared pages once for each.
void add_followed_sums(SystemSample& sample);

}  // namespace headroom::watch
