// The units of systemd, as its lines and the titles of findings name them.
#pragma once

#include <string>
#include <string_view>

namespace headroom::doctor {

// Of "… systemd[1]: vision.service: Failed …"; titles call a service one, without its ending.
std::string_view unit_of(std::string_view line);

// "vision" of "vision.service"; any other unit as it is.
std::string_view without_service(std::string_view unit);

// "The service vision", "session-2.scope"; "A process" where the line does not tell.
std::string words_for_unit(std::string_view unit);

// Whether the unit is in this slice, by the names that systemd gives them: "user-1000.slice" is in
// "user.slice", a service of the machine in "system.slice".
bool is_in_slice(std::string_view slice, std::string_view unit);

}  // namespace headroom::doctor
