// Metrics of the machine during a run: MetricsRecorder writes metrics.jsonl, GpuSampler adds the GPUs'
// figures.
//
// A child (hidden verb `_gpu_metrics`) loads NVIDIA's driver library. In the conductor the library would cost
// 19 MiB, and a crash in it would end the run.
//
// The first line that the child writes to descriptor 3 describes the host's GPUs. After that, each byte on
// its standard input asks for a sample. The answer is a line of metrics.jsonl with the driver's figures only.
// The child ends when its standard input closes or its parent dies. If there is nothing to report, it exits
// with code 0.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/units.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/measuring_child.h"
#include "monitoring/sample_metrics.h"
#include "sources/system_sampler.h"
#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::bench {

struct GpuSamplerOptions {
  // Whether the child is protected from the OOM killer, like its parent, a monitor (base/subprocess.h). The
  // child of a bench run is not, because its protection would disadvantage the measured model.
  bool is_spared = false;
  // Time after which a dead child is restarted, or the driver is looked for again. Absent: never.
  std::optional<Nanoseconds> restart_after;

  static GpuSamplerOptions of_monitor() { return {true, Nanoseconds{60'000'000'000}}; }
};

class GpuSampler {
 public:
  // Starts the child if this machine has NVIDIA's driver. Without a driver or without metrics, samples stay
  // empty.
  explicit GpuSampler(GpuSamplerOptions options = {});
  // Waits until the child has described the GPUs or ended, at most this long. A driver that first initialises
  // the GPUs takes seconds; samples before that have no GPU figures.
  void wait(Nanoseconds patience);
  // Adds the facts about the GPUs that do not change. The first call waits for them, up to a minute.
  void add_to(HostInfo& host);
  // Adds the current figures. If the driver does not answer within 200 ms, this sample has no GPU figures.
  void add_to(SystemSample& sample);
  // Why the metrics ended before the run did. Returned once.
  std::optional<std::string> take_problem();

 private:
  void start();
  void restart_if_due();
  std::optional<std::string> next_line(Nanoseconds patience);
  bool take_facts(Nanoseconds patience);
  void relay_log();
  void end();
  void give_up(const std::string& why);

  GpuSamplerOptions options_;

  Subprocess child_;
  UniqueFd requests_;
  LineReader answers_, log_;
  std::vector<std::string> lines_;  // received, but not parsed yet
  bool is_open_ = false;
  Nanoseconds started_;
  std::optional<Nanoseconds> restart_at_;
  std::optional<HostInfo> facts_;  // from the child's first line
  bool is_awaited_ = false;        // an answer is outstanding
  Nanoseconds asked_;
  bool has_given_up_ = false;  // so that the warning is printed once
  std::optional<std::string> problem_;
};

// The time series of a run: metrics.jsonl, one line per --metrics-interval, and its summary.
class MetricsRecorder {
 public:
  // If the file cannot be written, that is a warning, not an error: the models' figures do not depend on it.
  explicit MetricsRecorder(const std::filesystem::path& path);

  // Writes one line: the machine and each worker.
  void record(const std::string& phase, const std::vector<WorkerRun*>& runs);
  std::vector<MetricSummary> summary() const {
    const auto all = totals_.summaries();
    return {all.begin(), all.end()};
  }
  // Drops rates counted so far: kills and page faults of the limit's probe are not part of the run.
  void restart_rates() { sampler_.sample(); }
  // Adds the facts about the machine's GPUs, as their driver reports them.
  void add_gpus_to(HostInfo& host) { gpus_.add_to(host); }
  // Why GPU metrics ended before the run did. Returned once.
  std::optional<std::string> take_problem() { return gpus_.take_problem(); }
  // A warning if the clock was throttled since the last call: "the clock was throttled while it ran (GPU 0:
  // software power cap)". `while_what` is "it ran".
  std::optional<std::string> take_throttling(std::string_view while_what);

 private:
  sources::SystemSampler sampler_;
  GpuSampler gpus_;
  UniqueFd file_;
  Nanoseconds started_;
  monitoring::SeriesAccumulator totals_;
  bool throttled_ = false, failed_ = false;
  std::set<std::string> throttling_;  // "GPU 0: software power cap"
};

}  // namespace headroom::bench
