// Larger limits for the control group that a killed process was in, and names of systemd's units.
#pragma once

#include "doctor/cure_commands.h"
#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// A quarter more is a first try, as the log does not say how much was missing. Nothing if the limit is
// unknown.
std::optional<ContainerLimit> larger_limit(const LogMessage& message);
// The program that made the group must set its limit: it would undo another program's change.
std::vector<Cure> larger_limits(const LogMessage& message);

// The user whose systemd made the group: "1000" of "/…/user@1000.service/app.slice/app-x.scope". Empty for
// groups of the system.
std::string_view user_of(std::string_view group);
// Sets properties ("MemoryMax=1G MemorySwapMax=1G") of a systemd unit of the system, or of a user ("1000"). A
// scope ends with its processes, so the cure starts a new one with the properties.
Cure set_property(std::string what, std::string_view user, std::string_view unit,
                  std::string_view properties);

// The last part of a group's path. Podman puts a container's processes in a group inside its scope.
std::string_view name_in(std::string_view group);
// For a container's scope, whose limit its runtime sets; nothing for other units.
std::optional<Cure> limit_container(const std::optional<ContainerLimit>& limit, std::string_view user,
                                    std::string_view unit);

// "vision" of "… systemd[1]: vision.service: Failed …"; other units keep their ending.
std::string_view unit_of(std::string_view line);
// "vision" of "vision.service"; any other unit as it is.
std::string_view without_service(std::string_view unit);
// Whether the unit is in this slice, by their names: "user-1000.slice" is in "user.slice", a system service
// in "system.slice".
bool is_in_slice(std::string_view slice, std::string_view unit);

}  // namespace headroom::doctor
