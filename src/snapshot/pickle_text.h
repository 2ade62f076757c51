// Converts texts of the readable pickle protocols (0 and 1) to UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom::snapshot {

// Decodes Python's repr() of a byte string: 'it\'s'. Nothing if the text is not quoted.
std::optional<std::string> unquoted(std::string_view line);

// Decodes Latin-1 with \uXXXX and \UXXXXXXXX for other characters.
std::string from_raw_unicode(std::string_view line);

}  // namespace headroom::snapshot
