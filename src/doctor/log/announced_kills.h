// Kills that a log explains itself: ROS 2's launch kills what does not end when it is told to, and so does
// docker compose. Whoever reads then that a program was killed (shell_killed_rule.cpp) knows by whom and why,
// and it was no want of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Who tells of a kill: the figure told_by of such a message.
inline constexpr std::string_view kLaunch = "ROS's launch", kCompose = "docker compose", kSystemd = "systemd";

class AnnouncedKills {
 public:
  // How many lines may lie between: other nodes' last words.
  static constexpr std::int64_t kNear = 200;
  static constexpr std::size_t kMost = 64;

  // Words of which each line holds one that read() knows, for AnchorSearch.
  static const std::vector<std::string_view>& anchors();
  // Any line of a log.
  void read(std::string_view line, std::int64_t number);
  // Whether this kill was announced. An announcement is good for one: the next has another reason.
  bool explain(const LogMessage& killed, std::int64_t number);

 private:
  struct Announced {
    std::string program;
    std::int64_t line = 0;
  };
  void announce(std::string_view program, std::int64_t number);
  void forget(std::string_view program);

  std::vector<Announced> announced_;
  std::int64_t all_stop_ = -1;  // docker compose stops all of its containers
};

}  // namespace headroom::doctor
