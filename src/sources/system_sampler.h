// Samples the metrics of the whole machine from /proc and /sys. All files are read under a root prefix, so
// that the file tree of another board can be tested anywhere.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sources/metric_source.h"
#include "types/sample.h"

namespace headroom::sources {

// Takes samples from all sources that this machine has. Missing figures are absent. The first sample has no
// rates (CPU percent, swap-ins). The constructor looks for sources; missing ones and new sensors are looked
// for again every ten seconds. A source that fails ten times in a row is reported once in the log and
// skipped until it is found again.
class SystemSampler {
 public:
  explicit SystemSampler(const std::filesystem::path& root = "/",
                         Nanoseconds between_probes = {10'000'000'000});
  SystemSample sample();
  // Fills an existing sample. Allocates nothing once its lists have grown; for long series of samples.
  void sample_into(SystemSample& sample);
  // The sources that were found, for the log: "meminfo", "psi", "thermal: 3 zones", …
  std::vector<std::string> found() const;

 private:
  struct Slot {
    MakeMetricSource* make = nullptr;
    std::unique_ptr<MetricSource> source;  // null: not found, or failed too often
    int failures = 0;                      // in a row
    bool was_reported = false;
  };
  void probe();
  static void read(Slot& slot, SystemSample& sample);

  std::filesystem::path root_;
  Nanoseconds between_probes_, last_probe_;
  std::vector<Slot> slots_;
  std::size_t devices_ = 0;
};

}  // namespace headroom::sources
