// Timestamps in reports: RFC 3339 in the device's local time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

// The current time, with milliseconds: "2026-11-21T10:30:00.250+01:00".
std::string timestamp_now();

// Milliseconds since 1970 in UTC, so that times of different zones can be compared. Nothing if the text is
// not a timestamp. Also reads the format of Headroom's first versions: no fraction, "+0100".
std::optional<std::int64_t> parse_timestamp(std::string_view text);

// The timestamp without its fraction, for display.
std::string without_fraction(std::string_view timestamp);

}  // namespace headroom
