// Works around undefined behaviour in toml++ 3.3. For characters such as 'ö', its search for Unicode white
// space runs off the end of a switch. It searches wherever white space is allowed: outside strings, and after
// a backslash at the end of a line in a string.
//
// So parse_toml() hides these characters from the parser: it replaces each by a stand-in 0x100000 above it,
// in Unicode's last private-use plane. The code that reads the table restores them.
#pragma once

#include <string>
#include <string_view>

namespace headroom {

// Replaces U+0080…U+FFFF by U+100080…U+10FFFF. Invalid UTF-8 stays, and the parser rejects it.
std::string with_stand_ins(std::string_view text);

// The reverse. Characters that are not stand-ins stay.
std::string without_stand_ins(std::string_view text);

}  // namespace headroom
