// Samples this machine (or a file tree of another one) at a fixed interval.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "base/units.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/metrics.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "types/sample.h"
#include "watch/watch_options.h"

namespace headroom::watch {

// Takes samples of this machine, with its GPUs, or of another machine's file tree.
class MachineSampler {
 public:
  explicit MachineSampler(const std::filesystem::path& root);
  // Waits until the driver has initialised its GPUs, which can take seconds.
  void wait_for_gpus(Nanoseconds patience);
  void sample_into(SystemSample& sample);  // without processes
  void read_processes(SystemSample& sample, const sources::ProcessChoice& choice) {
    table_.read(sample, choice);
  }
  std::size_t processes() const { return table_.count(); }

 private:
  sources::SystemSampler system_;
  sources::ProcessTable table_;
  std::optional<bench::GpuSampler> gpus_;  // absent with another root: NVML reports this machine's GPUs
};

// What ended the sampling, and how many samples were missed.
struct LiveEnd {
  std::optional<ExitStatus> command;  // exit status of the followed command
  bool followed_ended = false;        // the followed processes have ended
  std::int64_t samples_late = 0;      // late by more than an interval
  std::int64_t intervals_missed = 0;  // without a sample: the machine or this process was stopped
};

// Fails if the folder has neither proc nor sys: otherwise a wrong path would look like a machine without
// figures.
Status check_sysroot(const std::filesystem::path& root);

// Takes a sample at each interval until `on_sample` returns false, the duration is over, a signal comes, or
// the followed processes end. A late sample is taken at once, and missed samples are counted, not made up.
// Times count from the start by the steady clock, so the wall clock may jump.
//
// With a command, the function returns only after the command has ended, whatever `on_sample` returns. After
// `duration` the command continues without samples. A signal is passed to the command.
Result<LiveEnd> sample_live(const WatchOptions& options, bench::Interrupt& interrupt,
                            const std::function<bool(SystemSample& sample)>& on_sample);

// Adds sums over the followed processes to sample.other: their number, resident, proportional, swapped and
// GPU memory. The resident sum counts a shared page once per process.
void add_followed_sums(SystemSample& sample);

// Detects that the wall clock jumped or that the machine was suspended, by more than one second. Reports each
// event once.
class ClockWatch {
 public:
  // Call it with each sample. Returns a message about the time since the last call, or an empty string.
  // `time` stops while the machine is suspended; `unix_time` continues. `suspended` is the total time of
  // suspension so far.
  std::string check(Nanoseconds time, Nanoseconds unix_time, Nanoseconds suspended);

 private:
  struct Offsets {
    Nanoseconds wall, suspended;
  };
  std::optional<Offsets> last_;
};

}  // namespace headroom::watch
