// What is done about the kernel's kills: a larger limit for the control group that reached its own, or what
// the machine's processes can do with less of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// The user whose own systemd made the group: "1000" of "/…/user@1000.service/app.slice/app-x.scope"; empty of
// the machine's.
std::string_view user_of(std::string_view group);
// Sets properties of a systemd unit ("MemoryMax=1G MemorySwapMax=1G"); those of a user's ("1000", or empty)
// are no units of the machine's systemd. What ends with its processes, a scope, is started with them: there
// is nothing left to set them of.
Cure set_property(std::string what, std::string_view user, std::string_view unit,
                  std::string_view properties);

// What stands behind the last "/" of a path; Podman has a container's processes in a group in its scope.
std::string_view name_in(std::string_view group);
// Whether the unit is a container's scope, which its runtime makes and limits, and a limit for that.
bool is_container(std::string_view unit);
Cure limit_container(std::string_view user, std::string_view unit);

// Sets the "limits" or "requests" of a container of a pod. Without its name kubectl sets those of all
// containers; what is empty is not known.
std::string set_pod_memory(std::string_view which, std::string_view size, std::string_view name_space,
                           std::string_view container);
Cure see_pods_of_node(std::string_view node);

inline constexpr const char* kKubernetes = "Kubernetes";  // who tells of a kill

// By whoever made the group: it would set back what another one set.
std::vector<Cure> larger_limits(const LogMessage& message);

// For a machine that was out of memory. What belongs to no process comes first where it is much: no process'
// end would give it back.
void add_machine_cures(const LogMessage& message, Finding& finding);
// The same for a node of Kubernetes.
void add_node_cures(const LogMessage& message, Finding& finding);

// Whether the message's report tells of much memory that belongs to no process: more than a tenth of all.
bool is_much_unaccounted(const LogMessage& message);

}  // namespace headroom::doctor
