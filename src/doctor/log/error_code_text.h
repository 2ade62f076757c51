// Names of error codes in the lines of a log: the same names stand in headers, lists and manuals.
#pragma once

#include <string_view>

namespace headroom::doctor {

// Whether a program tells that something ended with this code: "vkCreateBuffer failed: NAME", "VkResult:
// NAME", "… error NAME (-4)". Not where it is defined ("NAME = -2"), listed ("…, NAME, …", "NAME or …"), or
// explained ("returns NAME if …").
bool tells_error_code(std::string_view line, std::string_view name);

}  // namespace headroom::doctor
