// What differs between two logs of headroom watch, figure by figure. Pure.
//
// Neighbouring samples are alike, so they are not what is compared: each log is cut into batches of equal
// length, and the batches' means are, by Welch's t-test with as many of them as are independent of each
// other. A log is one observation of a machine all the same: what is told as changed was so for the whole of
// it, whatever the reason was.
//
// A mean says nothing of what rises, such as a leak, or moves as slowly as the log is long: of the former the
// slopes are compared, and of the rest it is said that it cannot be told.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/series_summary.h"
#include "monitoring/session_clock.h"

namespace headroom::comparison {

// A log by figures, in memory that does not grow with it. Of several sessions, one behind the other, each
// goes on where the one before ended.
class LogFigures {
 public:
  void add(const SystemSample& sample);
  std::int64_t samples() const { return samples_; }
  // From the first sample to the last. The curves leave out what passed between two sessions, in which
  // nothing was seen: as many samples are as much time, and a rise is one of the time that was watched.
  Nanoseconds duration() const { return clock_.elapsed(); }
  const std::map<std::string, monitoring::SeriesCurve, std::less<>>& curves() const { return curves_; }

 private:
  std::map<std::string, monitoring::SeriesCurve, std::less<>> curves_;
  std::int64_t samples_ = 0;
  monitoring::SessionClock clock_;
};

// Why it is not known whether a figure changed.
enum class SeriesDoubt { none, few_samples, trend, slow };
// "", "few_samples", "trend", "slow": as JSON has it.
std::string_view name_of(SeriesDoubt doubt);

struct SeriesChange {
  std::string name;
  double mean_before = 0, mean_after = 0, max_before = 0, max_after = 0;
  // Interval of the difference of the means: no farther than the logs went. Where its trend differs, the
  // means are what they are.
  double low = 0, high = 0;
  bool differs = false;
  bool is_of_trend = false;  // it differs in how it rises or falls
  SeriesDoubt doubt = SeriesDoubt::none;
  double rise_before = 0, rise_after = 0;  // by a line through the log, from its begin to its end

  double change() const { return mean_after - mean_before; }
};

// Of the figures that both have, what differs most, as a share, first, then what cannot be told. All figures
// together have 5 % of false alarms; a change of less than 2 % is none.
std::vector<SeriesChange> compare_series(const LogFigures& before, const LogFigures& after);

}  // namespace headroom::comparison
