// What is told of a program that was killed by whoever started it, who does not know by whom: a shell
// (shell_killed_rule.cpp), or what supervises it (supervisor_killed_rule.cpp).
#pragma once

#include <cstddef>
#include <string_view>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Of a command line no more is kept.
inline constexpr std::size_t kLongestCommand = 80;

// Who tells of it, the figure told_by: what it names is no command that a user could type.
inline constexpr std::string_view kSupervisord = "supervisord", kDockerBuild = "docker build",
                                  kSystemd = "systemd", kUwsgi = "uWSGI", kRay = "Ray";

// The program as its line names it; "a worker" where that does not.
LogMessage killed(std::string_view command);

Finding explain_killed(const LogMessage& message);

}  // namespace headroom::doctor
