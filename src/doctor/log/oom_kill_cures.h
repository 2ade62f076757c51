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
// Sets a property of a systemd unit; those of a user's ("1000", or empty) are no units of the machine's
// systemd.
Cure set_property(std::string what, std::string_view user, std::string_view unit, std::string_view property);

// By whoever made the group: it would set back what another one set.
std::vector<Cure> larger_limits(const LogMessage& message);

// For a machine that was out of memory. What belongs to no process comes first where it is much: no process'
// end would give it back.
void add_machine_cures(const LogMessage& message, Finding& finding);

// Whether the message's report tells of much memory that belongs to no process: more than a tenth of all.
bool is_much_unaccounted(const LogMessage& message);

}  // namespace headroom::doctor
