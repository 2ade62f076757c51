// A machine's samples over some time, summarized for the findings. Its size does not grow with the number of
// samples.
//
// A log may contain several sessions of headroom watch (cat a.jsonl b.jsonl). Events of any session count.
// The growth of memory is judged in each session alone.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/memory_risk.h"
#include "monitoring/sample_metrics.h"
#include "types/finding.h"
#include "types/sample.h"

namespace headroom::doctor {

// The system reuses process numbers: name and start time, if known, are part of the key.
struct ProcessKey {
  std::int64_t pid = 0;
  std::string name;
  std::optional<std::int64_t> start_ticks;
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};
struct ProcessGrowth {
  Bytes first, last;
  std::int64_t seen_in = 0;  // the number of the last sample with it
  Bytes grown() const { return last - first; }
};

// The desktop's processes in a sample.
bool is_of_desktop(std::string_view process);
struct DesktopProcesses {
  Bytes held;
  std::string names;
};
DesktopProcesses desktop_in(const SystemSample& sample);

// 0 if `total` is absent.
std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent);

// The memory of one session.
struct MachineSession {
  std::int64_t number = 1, samples = 0;
  SystemSample last;  // only of an ended session
  std::optional<Bytes> ram_total;
  // Growth since memory last fell.
  monitoring::RiskValue seconds_left, growth_per_hour;
  Nanoseconds growing_for;
  std::map<ProcessKey, ProcessGrowth> processes;
  monitoring::SeriesCurve used;  // unavailable memory

  double grown() const { return growth_per_hour.value.value_or(0) / 3600 * growing_for.seconds(); }
  // Its memory runs out earlier, or grew more.
  bool is_worse_than(const MachineSession& other) const;
};

// The process that grew most; the end of the map without processes.
std::map<ProcessKey, ProcessGrowth>::const_iterator fastest_process(const MachineSession& session);

// A sample with the most memory in use so far.
template <class Sample>
struct MomentOf {
  Sample sample;
  Nanoseconds at;  // since the first sample
  std::int64_t number = 0;
  double most = 0;
};

class MachineHistory {
 public:
  void add(const SystemSample& sample);

  std::int64_t samples = 0;
  SystemSample last;
  MachineSession session;               // of the last sample
  std::vector<MachineSession> earlier;  // the worst ones
  std::int64_t sessions() const { return clock_.sessions(); }
  Nanoseconds duration() const { return clock_.elapsed(); }

  // The moments with most memory in use; with most swap in use, while at most a fifth of the memory was
  // available; and in which a GPU, the control group, zram or a desktop held most. A finding uses the figures
  // of one moment's sample.
  using Moment = MomentOf<SystemSample>;
  bool is_now(const auto& moment) const { return moment.number == samples; }
  std::map<std::int64_t, MomentOf<GpuSample>> fullest_gpus;  // by index
  std::optional<Moment> fullest_memory, fullest_swap, fullest_group, largest_zram, largest_desktop;
  std::optional<Moment> throttled_group;  // farthest above memory.high
  Bytes most_swapped;
  Nanoseconds thrashed_at, starved_at;  // worst
  // The least free memory for NvMap, the page cache at that moment, and how long it lasted.
  std::optional<Bytes> starved_free, starved_cache;
  Nanoseconds starved;
  // The time above the limits of the alerts of the same names (docs/alerts.md).
  Nanoseconds thrashed, in_pieces, throttled;
  double most_thrash = 0, worst_factor = 0;
  // A control group at its limit: the time in which it dropped pages and read them again, the most pages per
  // second with the limit at that time, and the largest share of time that tasks waited.
  Nanoseconds group_thrashed;
  double most_group_pages = 0, most_group_waiting = 0;
  Bytes thrashed_group_limit;
  std::int64_t oom_kills = 0;  // of the machine
  // Kills in the log's control group with a limit. Absent without such a group, or if the kernel does not
  // count them.
  std::optional<std::int64_t> group_oom_kills;
  std::vector<KernelEvent> kernel_events;  // the first
  // Whether no kill can be of the log's control group, in any session.
  bool all_kills_were_elsewhere() const { return !had_own_kill_ && !kills_.may_be_own(); }

 private:
  // Of one session.
  struct Kills {
    bool any = false;
    std::optional<std::int64_t> of_group, of_group_before;
    bool may_be_own() const { return any && of_group != 0; }
  };

  void begin_session();
  void add_kills(const SystemSample& sample);
  void add_times(const SystemSample& sample, Nanoseconds since);
  void add_group_thrash(const SystemSample& sample, Nanoseconds since);
  void add_moments(const SystemSample& sample);
  void add_processes(const SystemSample& sample);
  // Restarts the judgement of growth when memory falls.
  void add_growth(const SystemSample& sample, Nanoseconds since);

  monitoring::SessionClock clock_;
  // Of this session.
  std::optional<monitoring::MemoryRisk> risk_, growth_;
  std::optional<Bytes> highest_used_;  // since the restart
  Nanoseconds growing_since_;
  Kills kills_;

  bool had_own_kill_ = false;  // in an earlier session
};

// Findings of now (--live), of a log of headroom watch, or of a run. `name`: of the log, or "this machine".
// Unsorted.
std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name);

}  // namespace headroom::doctor
