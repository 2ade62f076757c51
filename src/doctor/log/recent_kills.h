// One kill is told by several: the kernel names the process, systemd the unit that it was of, a shell or a
// launch file the process again. Which of them tell of the same one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/log_place.h"
#include "doctor/log/log_rule.h"

namespace headroom::doctor {

struct RecentKill {
  std::string process;        // its number; empty where it is not told
  std::string control_group;  // of the victim, as a path
  LogPlace at;
  std::optional<LogTime> time;
  std::size_t group = 0;                                // of messages that it is in
  std::string unit;                                     // that was told of it
  bool is_by_shell = false, is_known_to_shell = false;  // a shell told it first; or then
  std::int64_t lines_to_whole = 0;                      // LogMessage's
};

// Lines of one file so near tell of one thing: a traceback and the words of several libraries lie between.
inline constexpr std::int64_t kNearLines = 200;
bool is_near(const LogPlace& before, const LogPlace& at);

// Of a program that kills follow one another in, the last kMost.
class RecentKills {
 public:
  static constexpr std::size_t kMost = 16;

  void add(RecentKill kill);
  void add_control_group(const std::string& process, std::string_view path);
  // The kill that such a line, there, is of. Of a process: by its number. Of a unit: by the victim's control
  // group, or where that is not told the last one of which no other unit was told. nullptr: none of these.
  RecentKill* of_process(std::string_view process, const LogPlace& at, const std::optional<LogTime>& time);
  RecentKill* of_unit(std::string_view unit, const LogPlace& at, const std::optional<LogTime>& time);
  // Of which this unit was told before.
  RecentKill* told_of(std::string_view unit, const LogPlace& at, const std::optional<LogTime>& time);
  // The last one there that it calls so.
  template <typename IsIt>
  RecentKill* find_last(const LogPlace& at, const std::optional<LogTime>& time, IsIt is_it) {
    const auto found = std::find_if(kills_.rbegin(), kills_.rend(), [&](const RecentKill& kill) {
      return is_near(kill.at, at) && !are_apart(kill.time, time) && is_it(kill);
    });
    return found == kills_.rend() ? nullptr : &*found;
  }
  void remove(const RecentKill* kill);
  const RecentKill* last() const { return kills_.empty() ? nullptr : &kills_.back(); }

 private:
  std::deque<RecentKill> kills_;
};

}  // namespace headroom::doctor
