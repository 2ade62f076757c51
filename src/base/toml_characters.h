// A way around undefined behaviour in toml++ 3.3: its search for Unicode white space runs off the end of a
// switch for characters such as 'ö' wherever white space may stand (outside strings, and behind a backslash
// at the end of a line in one). The parser never sees such a character: each goes in as a stand-in of
// Unicode's last private-use plane, 0x100000 above it, and comes back from there.
#pragma once

#include <string>
#include <string_view>

namespace headroom {

// `text` with U+0080…U+FFFF as U+100080…U+10FFFF. What is not well-formed stays, for the parser to refuse.
std::string with_stand_ins(std::string_view text);

// The reverse; characters that are nobody's stand-in stay.
std::string without_stand_ins(std::string_view text);

}  // namespace headroom
