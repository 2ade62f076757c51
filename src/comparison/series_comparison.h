// Compares two logs of headroom watch, figure by figure. Pure.
//
// Neighboring samples are correlated, so each log is cut into batches of equal length, and their means are
// compared by Welch's t-test with the number of independent batches. A mean says nothing about growth, such
// as a leak, or slow changes: for growth the slopes are compared, and slow changes stay undecided.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "monitoring/sample_metrics.h"

namespace headroom::comparison {

// A log by figures, in bounded memory. Several sessions follow one another.
class LogFigures {
 public:
  void add(const SystemSample& sample);
  std::int64_t samples() const { return samples_; }
  // From the first sample to the last. The curves leave out the time between sessions.
  Nanoseconds duration() const { return clock_.elapsed(); }
  const std::map<std::string, monitoring::SeriesCurve, std::less<>>& curves() const { return curves_; }

 private:
  std::map<std::string, monitoring::SeriesCurve, std::less<>> curves_;
  std::int64_t samples_ = 0;
  monitoring::SessionClock clock_;
};

// Why a figure is undecided.
enum class SeriesDoubt { none, few_samples, trend, slow };
// The names in JSON; "" for none.
std::string_view name_of(SeriesDoubt doubt);

struct SeriesChange {
  std::string name;
  double mean_before = 0, mean_after = 0, max_before = 0, max_after = 0;
  // The interval of the difference of the means; no wider than the range of the logs.
  double low = 0, high = 0;
  bool differs = false;
  bool is_of_trend = false;  // it differs in how it rises or falls
  SeriesDoubt doubt = SeriesDoubt::none;
  double rise_before = 0, rise_after = 0;  // by a line through the log, from its begin to its end

  double change() const { return mean_after - mean_before; }
};

// The figures that both logs have: first those that differ most, as a share, then the undecided ones. All
// together have 5 % of false alarms; changes below 2 % do not count.
std::vector<SeriesChange> compare_series(const LogFigures& before, const LogFigures& after);

// One log as a side of a comparison.
struct WatchedLog {
  LogFigures figures;
  Fnv1a samples;                  // of all that the figures hold: two with one fingerprint are one log
  std::int64_t unread_lines = 0;  // that are no samples: garbage, or cut off in the middle
  bool is_cut = false, is_damaged = false;

  // A line that is not a sample has no figure, only unknown words.
  void add(const SystemSample& sample);
  bool is_whole() const { return unread_lines == 0 && !is_cut && !is_damaged; }
};

std::vector<std::string> problems_of(const WatchedLog& log, const std::string& name);

// A figure with fewer samples has no interval.
bool has_enough(const WatchedLog& a, const WatchedLog& b, const std::string& figure);

}  // namespace headroom::comparison
