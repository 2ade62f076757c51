// A worker's memory as it is seen from outside, 20 times a second: the curve, the mean, what stands in for
// the marks that a worker which died could not read, and samples over a limit that nobody enforces.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "limits/memory_limit.h"
#include "model/bench_result.h"
#include "model/sample.h"

namespace headroom::bench {

// Whether samples are what a limit is held against. A control group is the kernel's own judge (and does not
// charge the pages of shared libraries that RSS counts). False without a limit.
bool is_watched(const limits::MemoryLimit* limit);

struct MemorySamples {
  std::optional<Bytes> peak;      // since the last phase began
  std::optional<Bytes> run_peak;  // of the measured frames
  std::optional<Bytes> data_peak, pss_peak, pss_run_peak, file_backed_peak;
  std::int64_t violations = 0;
  std::vector<MemoryPoint> series;

  // A phase was reached; `data` as the worker read it of itself.
  void begin_phase(std::optional<Bytes> data);
  // Peaks of what was just read. Before the worker's next word is: it may say that this phase is over.
  void add_peaks(Bytes resident, std::optional<Bytes> data, std::optional<Bytes> file_backed = {});
  // The same sample, `time` after the worker's start, which has its resident bytes. `is_of_run`: between its
  // first measured frame and its last. Counts it where it is over the limit, in the account that the limit is
  // held against (limit_peak()).
  void add(Nanoseconds time, const ProcessMemory& sample, bool is_of_run, const limits::MemoryLimit* limit);
  void add_share(Bytes pss, bool is_of_run);
  // Of the measured frames; absent where no sample fell into them.
  std::optional<Bytes> run_mean() const;

 private:
  void add_data(std::optional<Bytes> data);
  double run_sum_ = 0;
  std::int64_t run_samples_ = 0, stride_ = 1, passed_over_ = 0;
};

}  // namespace headroom::bench
