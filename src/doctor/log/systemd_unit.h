// Names of systemd units in its lines and in titles of findings.
#pragma once

#include <string>
#include <string_view>

namespace headroom::doctor {

// "vision" of "… systemd[1]: vision.service: Failed …"; other units keep their ending.
std::string_view unit_of(std::string_view line);

// "vision" of "vision.service"; any other unit as it is.
std::string_view without_service(std::string_view unit);

// "The service vision", "session-2.scope", or "A process" without a unit.
std::string words_for_unit(std::string_view unit);

// Whether the unit is in this slice, by their names: "user-1000.slice" is in "user.slice", a system service
// in "system.slice".
bool is_in_slice(std::string_view slice, std::string_view unit);

}  // namespace headroom::doctor
