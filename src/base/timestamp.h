// Moments as reports have them: RFC 3339 in the device's local time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

// Of now, to the millisecond: "2026-11-21T10:30:00.250+01:00".
std::string timestamp_now();

// Milliseconds since 1970 in UTC, so that moments of several zones can be compared. Nothing where the text is
// no moment. Also reads what the first versions of Headroom wrote: no fraction, "+0100".
std::optional<std::int64_t> parse_timestamp(std::string_view text);

// Without the fraction, which people do not ask for.
std::string without_fraction(std::string_view timestamp);

}  // namespace headroom
