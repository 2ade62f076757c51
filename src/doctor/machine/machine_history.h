// A machine over some time, out of its samples: what findings on machines look at. Memory does not grow with
// the number of samples.
//
// A log may hold several sessions of headroom watch, one behind the other (cat a.jsonl b.jsonl). What
// happened in any of them happened; how memory grows is looked at in each by itself.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/memory_risk.h"
#include "monitoring/session_clock.h"
#include "types/sample.h"

namespace headroom::doctor {

// Numbers are used again, so a process is one by its number and its name, and where it is known by its start.
struct ProcessKey {
  std::int64_t pid = 0;
  std::string name;
  std::optional<std::int64_t> start_ticks;
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};
struct ProcessGrowth {
  Bytes first, last;
  std::int64_t seen_in = 0;  // the number of the last sample that has it
  Bytes grown() const { return last - first; }
};

// The desktop's processes in a sample.
bool is_of_desktop(std::string_view process);
struct DesktopProcesses {
  Bytes held;
  std::string names;
};
DesktopProcesses desktop_in(const SystemSample& sample);

// Memory in one session.
struct MachineSession {
  std::int64_t number = 1, samples = 0;
  SystemSample last;  // only once it has ended; before, it is the history's
  std::optional<Bytes> ram_total;
  // Of what has grown since memory last fell.
  monitoring::RiskValue seconds_left, growth_per_hour;
  Nanoseconds growing_for;
  std::map<ProcessKey, ProcessGrowth> processes;
  // What is not available, evenly chosen.
  std::vector<std::int64_t> at, used;

  double grown() const { return growth_per_hour.value.value_or(0) / 3600 * growing_for.seconds(); }
  // It runs out earlier, or grew more.
  bool is_worse_than(const MachineSession& other) const;
};

class MachineHistory {
 public:
  void add(const SystemSample& sample);

  std::int64_t samples = 0;
  SystemSample last;
  MachineSession session;               // that of the last sample
  std::vector<MachineSession> earlier;  // of many the worst
  std::int64_t sessions() const { return clock_.sessions(); }
  Nanoseconds duration() const { return clock_.elapsed(); }

  // The moments in which most of the memory was taken, in which most of the swap was used while no more than
  // a fifth of the memory was available, and in which a GPU, the control group, zram and a desktop held most:
  // what has ended by the last sample was there all the same. All that is told of a moment is of its sample.
  struct Moment {
    SystemSample sample;
    Nanoseconds at;  // since the first
    std::int64_t number = 0;
    double most = 0;
  };
  bool is_now(const Moment& moment) const { return moment.number == samples; }
  std::map<std::int64_t, Moment> fullest_gpus;  // by index
  std::optional<Moment> fullest_memory, fullest_swap, fullest_group, largest_zram, largest_desktop;
  Bytes most_swapped;
  Nanoseconds thrashed_at, starved_at;  // worst
  // When the GPU's allocator had least, and what the page cache held then; and for how long it was so.
  std::optional<Bytes> starved_free, starved_cache;
  Nanoseconds starved;
  // Above the limits of the alerts of the same names (docs/alerts.md).
  Nanoseconds thrashed, in_pieces, throttled;
  double most_thrash = 0, worst_factor = 0;
  // Of a control group at its limit: the time in which it dropped pages and read them again, the most pages a
  // second and its limit then, and the most of the time that tasks waited for them.
  Nanoseconds group_thrashed;
  double most_group_pages = 0, most_group_waiting = 0;
  Bytes thrashed_group_limit;
  std::int64_t oom_kills = 0;  // of the machine
  // Of the control group with a limit that the log is of, while it was written; absent where there is none,
  // or its kernel does not count them.
  std::optional<std::int64_t> group_oom_kills;
  std::vector<KernelEvent> kernel_events;  // the first
  // Each session with a kill was of a control group that lost none itself.
  bool all_kills_were_elsewhere() const;

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
  void add_point(const SystemSample& sample);
  void add_moments(const SystemSample& sample);
  void add_processes(const SystemSample& sample);
  void forget_ended_processes(std::size_t present);
  // Growth is judged anew once memory fell: what was before has ended.
  void add_growth(const SystemSample& sample, Nanoseconds since);

  monitoring::SessionClock clock_;
  // Of this session.
  std::optional<monitoring::MemoryRisk> risk_, growth_;
  std::optional<Bytes> highest_used_;  // since growth is judged
  Nanoseconds growing_since_;
  std::int64_t stride_ = 1;
  Kills kills_;

  bool had_own_kill_ = false;  // in a session before
};

}  // namespace headroom::doctor
