// Names of error codes in logs. Headers, lists and manuals contain the same names.
#pragma once

#include <string_view>

namespace headroom::doctor {

// Whether a call ended with this code: "vkCreateBuffer failed: NAME", "VkResult: NAME", "… error NAME (-4)".
// Not where the name is defined ("NAME = -2"), listed ("NAME or …") or explained ("returns NAME if …").
bool tells_error_code(std::string_view line, std::string_view name);

}  // namespace headroom::doctor
