// Kills that a log announces: ROS 2's launch, docker compose and systemd kill programs that do not end in
// time. The later line about the killed program (rules/killed.cpp) is then no finding: memory did not run
// out.
#pragma once

#include <map>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// The program that reports a kill: the figure told_by of its message.
inline constexpr std::string_view kLaunch = "ROS's launch", kCompose = "docker compose", kSystemd = "systemd";

class AnnouncedKills {
 public:
  static constexpr std::size_t kMost = 64;

  // For AnchorSearch: each line that read() knows contains one of these.
  static const std::vector<std::string_view>& anchors();
  // Any line of a log.
  void read(std::string_view line, std::int64_t number);
  // Whether this kill was announced. An announcement explains one kill.
  bool explain(const LogMessage& killed, std::int64_t number);

 private:
  void announce(std::string_view program, std::int64_t number);

  std::map<std::string, std::int64_t> announced_;  // the line, by program
  std::int64_t all_stop_ = -1;                     // docker compose stops all containers
};

}  // namespace headroom::doctor
