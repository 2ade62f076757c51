// What a message says was asked for. A negative number that is printed as unsigned, or a product that
// overflowed, is no size: its digits are kept, as they tell that it was computed wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Adds the text's first word as requested_bytes; one that no memory has, as wrong_size, which is a text.
// False: it is no size.
bool add_requested(LogMessage& message, const std::optional<std::string_view>& text);

// Whether no machine has so much: a size that was computed wrong, and no want of memory.
bool has_wrong_size(const LogMessage& message);

// For titles: "2.0 MiB", "18446744073709551612 bytes", or `otherwise`.
std::string words_for_requested(const LogMessage& message, std::string_view otherwise = "some memory");

// The cause of such a size, with what it is as a signed number.
std::string cause_of_wrong_size(const LogMessage& message);

}  // namespace headroom::doctor
