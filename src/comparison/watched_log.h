// A log of headroom watch as one side of a comparison: its figures, and what is wrong with it. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/fnv1a.h"
#include "comparison/series_comparison.h"

namespace headroom::comparison {

struct WatchedLog {
  LogFigures figures;
  Fnv1a samples;                  // of all that the figures hold: two with one fingerprint are one log
  std::int64_t unread_lines = 0;  // that are no samples: garbage, or cut off in the middle
  bool is_cut = false, is_damaged = false;

  // A line that is no sample comes as its own unknown words, without a figure.
  void add(const SystemSample& sample);
  bool is_whole() const { return unread_lines == 0 && !is_cut && !is_damaged; }
};

// Whether both hold the same samples. What could be read of two that are damaged may be alike though they are
// not.
bool are_one_log(const WatchedLog& a, const WatchedLog& b);

// "A (a.jsonl) is cut off after 40 samples", of `name`.
std::vector<std::string> problems_of(const WatchedLog& log, const std::string& name);

// A figure of fewer samples has no interval, and would be judged as if it were exact.
bool has_enough(const WatchedLog& a, const WatchedLog& b, const std::string& figure);

// Of a log and itself: whatever it does, it has not changed.
void clear_changes(std::vector<SeriesChange>& changes);

}  // namespace headroom::comparison
