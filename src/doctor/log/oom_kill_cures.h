// Cures for kills: a larger limit for the control group that reached it, or less memory for the machine's
// processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// The user whose systemd made the group: "1000" of "/…/user@1000.service/app.slice/app-x.scope". Empty for
// groups of the system.
std::string_view user_of(std::string_view group);
// Sets properties ("MemoryMax=1G MemorySwapMax=1G") of a systemd unit of the system, or of a user ("1000"). A
// scope ends with its processes, so the cure starts a new one with the properties.
Cure set_property(std::string what, std::string_view user, std::string_view unit,
                  std::string_view properties);

// The last part of a group's path. Podman puts a container's processes in a group inside its scope.
std::string_view name_in(std::string_view group);
// Whether the unit is a container's scope. Its runtime makes and limits it.
bool is_container(std::string_view unit);
Cure limit_container(std::string_view user, std::string_view unit);

// Sets the "limits" or "requests" of a pod's container. Without its name, kubectl would set those of all
// containers. Empty names are unknown.
std::string set_pod_memory(std::string_view which, std::string_view size, std::string_view name_space,
                           std::string_view container);
Cure see_pods_of_node(std::string_view node);

inline constexpr const char* kKubernetes = "Kubernetes";  // reports a kill

// The program that made the group must set its limit: it would undo another program's change.
std::vector<Cure> larger_limits(const LogMessage& message);

// For a machine that was out of memory. Memory that belongs to no process comes first if it is much, as
// ending a process would not free it.
void add_machine_cures(const LogMessage& message, Finding& finding);
// The same for a node of Kubernetes.
void add_node_cures(const LogMessage& message, Finding& finding);

// Whether more than a tenth of the memory belongs to no process in the report.
bool is_much_unaccounted(const LogMessage& message);

}  // namespace headroom::doctor
