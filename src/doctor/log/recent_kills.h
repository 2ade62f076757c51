// Several programs report one kill: the kernel names the process, systemd its unit, and a shell or a launch
// file the process again. RecentKills finds the lines about the same kill.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::doctor {

// The time near the begin of a line: in seconds of a day ("Mar 02 10:00:00", "2026-11-21T10:30:00", "[Mon Mar
// 2 10:00:00 2026]"), or since boot ("[  510.812345]").
struct LogTime {
  bool is_since_boot = false;
  std::int64_t seconds = 0;
};
std::optional<LogTime> time_of(std::string_view line);
// True if both times are known, on one clock, and further apart than lines about one kill.
bool are_apart(const std::optional<LogTime>& a, const std::optional<LogTime>& b);

struct LogPlace {
  std::string file;
  std::int64_t line = 0;
  std::optional<LogTime> time{};
};

// So many lines may lie between two lines about one event: a traceback, and messages of several libraries.
inline constexpr std::int64_t kNearLines = 200;
bool is_near(const LogPlace& before, const LogPlace& at);

struct RecentKill {
  std::string process;        // its number; empty if unknown
  std::string control_group;  // of the victim, as a path
  LogPlace at;
  std::size_t group = 0;     // of messages
  std::string unit{};        // from systemd's line
  bool is_by_shell = false;  // a shell reported it
};

// The last kMost kills.
class RecentKills {
 public:
  static constexpr std::size_t kMost = 16;

  void add(RecentKill kill);
  void add_control_group(const std::string& process, std::string_view path);
  // The kill that a line at this place is about, or nullptr. of_unit() compares the victim's control group.
  // If that is unknown, it is the last kill without another unit.
  RecentKill* of_process(std::string_view process, const LogPlace& at);
  RecentKill* of_unit(std::string_view unit, const LogPlace& at);
  // The last one near that place for which is_it() is true.
  template <typename IsIt>
  RecentKill* find_last(const LogPlace& at, IsIt is_it) {
    const auto found = std::find_if(kills_.rbegin(), kills_.rend(), [&](const RecentKill& kill) {
      return is_near(kill.at, at) && !are_apart(kill.at.time, at.time) && is_it(kill);
    });
    return found == kills_.rend() ? nullptr : &*found;
  }
  void remove(const RecentKill* kill);
  const RecentKill* last() const { return kills_.empty() ? nullptr : &kills_.back(); }

 private:
  std::deque<RecentKill> kills_;
};

}  // namespace headroom::doctor
