// The figures of samples by name, such as "cpu_percent", "ram_used_bytes" and
// "temperature_celsius.cpu-thermal".
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::monitoring {

// Calls `on_metric` for each figure of the sample, always in the same order. The name is valid during the
// call. Throttling counts as 1, so its mean is a share of the samples. Single cores and processes are left
// out.
void for_each_metric(const SystemSample& sample,
                     const std::function<void(std::string_view name, double value)>& on_metric);

// A part of a memory in percent. Absent if either is unknown.
std::optional<double> percent_of(const std::optional<Bytes>& part, const std::optional<Bytes>& whole);

struct SeriesSummary : MetricSummary {
  double last = 0;
  std::optional<double> slope_per_second;  // by least squares; absent below three samples
};

// Keeps no samples.
class SeriesAccumulator {
 public:
  void add(const SystemSample& sample);
  // The metrics that a sample had, in the order of their first sample; `n` counts the samples that had it.
  std::vector<SeriesSummary> summaries() const;

 private:
  struct Series {
    SeriesSummary summary;
    // Sums over the times since the first sample, by Welford.
    double mean_time = 0, time_squares = 0, products = 0;
  };
  std::vector<Series> series_;
  std::size_t next_ = 0;  // where the next metric stands, as the order does not change
  std::optional<Nanoseconds> start_;
};

// A value over time in at most kMostPoints points. If there are more, two become one, with their mean and
// extremes.
class SeriesCurve {
 public:
  static constexpr std::size_t kMostPoints = 1024;
  struct Point {
    Nanoseconds begin, end;
    double min = 0, mean = 0, max = 0;
    std::int64_t n = 0;  // samples; only a point without any is empty
  };
  void add(Nanoseconds time, double value);
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  std::int64_t samples_a_point_ = 1;
};

// The time of samples that may come from several sessions in sequence (cat a.jsonl b.jsonl). Each session
// counts from 0, so a time that goes back starts another one.
class SessionClock {
 public:
  struct Step {
    Nanoseconds since;  // the sample before, of the same session; 0 of its first
    bool begins_session = false;
  };

  Step add(const SystemSample& sample) {
    Step step;
    step.begins_session = !last_ || sample.time < *last_;
    if (step.begins_session) {
      ++sessions_;
      go_on(elapsed_, gap_before(sample));
    } else {
      step.since = sample.time - *last_;
    }
    go_on(elapsed_, step.since);
    go_on(watched_, step.since);
    last_ = sample.time;
    last_unix_ = sample.unix_time;
    return step;
  }

  std::int64_t sessions() const { return sessions_; }
  // From the first sample to the last. Only the wall clock gives the time between two sessions; within one
  // it may be set.
  Nanoseconds elapsed() const { return elapsed_; }
  // The same without the time between sessions.
  Nanoseconds watched() const { return watched_; }

 private:
  // Negative if the wall clock was set back.
  Nanoseconds gap_before(const SystemSample& sample) const {
    return last_unix_ && sample.unix_time ? *sample.unix_time - *last_unix_ : Nanoseconds{};
  }
  // Times in a log may be absurd; their sum must not overflow.
  static void go_on(Nanoseconds& clock, Nanoseconds by) {
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    clock.count += std::clamp<std::int64_t>(by.count, 0, kMost - clock.count);
  }

  std::optional<Nanoseconds> last_, last_unix_;
  std::int64_t sessions_ = 0;
  Nanoseconds elapsed_, watched_;
};

// The machine's memory in parts that add up to MemTotal.
struct MemoryStack {
  Bytes total;
  Bytes free;       // MemFree
  Bytes cache;      // files that can be read again, buffers, reclaimable slab: given back on demand
  Bytes processes;  // anonymous memory and shared memory of the CPU's processes
  Bytes gpu;        // NvMap; zero where the machine has none
  Bytes system;     // the kernel and what no figure tells of: the rest
};

// Absent without MemTotal, MemFree, Buffers, Cached and AnonPages (as in a log of tegrastats). The figures
// are of slightly different moments, so a part is cut to what is left of the total.
std::optional<MemoryStack> memory_stack_of(const SystemSample& sample);

}  // namespace headroom::monitoring
