// The size that a program requested. A negative number that is printed as unsigned, or a product that
// overflowed, is kept as text: it shows that the size was computed wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Adds the size as requested_bytes, or as the text wrong_size if no memory is that large. False: it is not a
// size.
bool add_requested(LogMessage& message, const std::optional<std::string_view>& text);

// Whether no machine has that much memory: the size was computed wrong.
bool has_wrong_size(const LogMessage& message);

// For titles: "2.0 MiB", "18446744073709551612 bytes", or `otherwise`.
std::string words_for_requested(const LogMessage& message, std::string_view otherwise = "some memory");

// The cause of such a size, with its value as a signed number.
std::string cause_of_wrong_size(const LogMessage& message);

}  // namespace headroom::doctor
