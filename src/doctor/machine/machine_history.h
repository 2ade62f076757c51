// A machine over some time, out of its samples: what findings on machines look at. Memory does not grow with
// the number of samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/memory_risk.h"
#include "model/sample.h"

namespace headroom::doctor {

struct ProcessGrowth {
  std::string name;
  Bytes first, last;
};

// What of a desktop's processes is in this sample, and their names.
struct DesktopProcesses {
  Bytes held;
  std::string names;
};
DesktopProcesses desktop_in(const SystemSample& sample);

class MachineHistory {
 public:
  void add(const SystemSample& sample);

  std::int64_t samples = 0;
  Nanoseconds first_time, last_time;
  SystemSample last;
  // The moments in which a GPU, the control group, zram and a desktop held most: what has ended by the last
  // sample was there all the same.
  struct Moment {
    SystemSample sample;
    Nanoseconds at;
    double most = 0;
  };
  std::map<std::int64_t, Moment> fullest_gpus;  // by index
  std::optional<Moment> fullest_group, largest_zram, largest_desktop;
  // The sample in which the least part of the memory was available, and that in which most of the swap was
  // used: with the totals of those samples, which may be of several machines, and the time since the first.
  std::optional<Bytes> lowest_available;
  Bytes lowest_of;
  Nanoseconds lowest_at;
  Bytes most_swapped, swapped_of;
  Nanoseconds swapped_at, thrashed_at, starved_at;  // worst
  // When the GPU's allocator had least, and what the page cache held then.
  std::optional<Bytes> starved_free, starved_cache;
  Nanoseconds starved;
  // Above the limits of the alerts of the same names (docs/alerts.md).
  Nanoseconds thrashed, in_pieces, throttled;
  double most_thrash = 0, worst_factor = 0;
  // Of a control group at its limit: the time in which it dropped pages and read them again, the most pages a
  // second, and the most of the time that tasks waited for them.
  Nanoseconds group_thrashed;
  double most_group_pages = 0, most_group_waiting = 0;
  std::int64_t oom_kills = 0;  // of the machine
  // Of the control group with a limit that the log is of, while it was written; absent where there is none,
  // or its kernel does not count them.
  std::optional<std::int64_t> group_oom_kills;
  std::optional<std::int64_t> group_oom_kills_at_first;
  std::vector<KernelEvent> kernel_events;           // the first
  std::map<std::int64_t, ProcessGrowth> processes;  // by pid
  // What is not available, evenly chosen.
  std::vector<std::int64_t> at, used;
  analysis::RiskValue seconds_left, growth_per_hour;

  // Since growth is judged: from the last time on that memory fell.
  Nanoseconds growing_since;
  Nanoseconds duration() const { return last_time - first_time; }
  Nanoseconds growing_for() const { return last_time - growing_since; }

 private:
  void add_times(const SystemSample& sample, Nanoseconds since);
  void add_group_thrash(const SystemSample& sample, Nanoseconds since);
  void add_point(const SystemSample& sample);
  void add_moments(const SystemSample& sample);
  // Growth is judged anew once memory fell: what was before has ended.
  void start_growth_again(const SystemSample& sample, Nanoseconds since);

  std::optional<analysis::MemoryRisk> risk_, growth_;
  std::optional<Bytes> highest_used_;  // since growth is judged
  std::int64_t stride_ = 1;
};

}  // namespace headroom::doctor
