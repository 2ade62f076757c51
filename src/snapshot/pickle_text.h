// Texts as the readable pickle protocols (0 and 1) write them, to UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom::snapshot {

// The text that Python's repr() of a str of bytes stands for: 'it\'s'. Nothing if it is not quoted.
std::optional<std::string> unquoted(std::string_view line);

// Latin-1 with \uXXXX and \UXXXXXXXX for the other characters.
std::string from_raw_unicode(std::string_view line);

}  // namespace headroom::snapshot
