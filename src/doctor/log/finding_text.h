// The words of a finding, the right side of a rule: templates that a message's figures fill in.
//
//   "OpenCV could not allocate {requested|some memory}[[ on GPU {gpu}]]"
//
// {name} is a figure: a size as "2.0 MiB", a number, or a text. {name|words} has words for a missing figure.
// A part in [[ ]] is left out if one of its figures is missing, and "[[if errno=12: (no memory)]]" if the
// condition does not hold: its text begins right behind the colon. A figure may be an expression of figures
// and numbers, computed from left to right: {requested_bytes/4*3}, {context_length/2}. Behind a colon stands
// how it is printed: {x_bytes:count} as a number of bytes, {x_bytes:mib} in whole MiB, rounded up
// ({x_bytes:mib_16}: 16 at least), {x_bytes:mib_above} and {x_bytes:bytes_above} as the next power of two of
// MiB from a quarter above, {x:shell} quoted for a shell. {requested} is what was asked for, also where no
// machine has so much.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Nothing if a figure is missing outside of [[ ]].
std::optional<std::string> fill_in(std::string_view text, const LogMessage& message);

// Whether all of these terms, separated by ", ", hold: "node" and "!node" (there is such a figure, or none),
// "memory=host", "memory!=host", "reason~GPU" (it contains this), "gpu>0", "free_bytes<requested_bytes".
// "subject" is the message's subject; "wrong_size" that no machine has what was asked for.
bool holds(std::string_view condition, const LogMessage& message);

// Whether no machine has as much memory as the program requested: it computed a wrong size. Such a size, a
// negative number that is printed as unsigned or a product that overflowed, is the text "wrong_size".
bool has_wrong_size(const LogMessage& message);

// The value of an expression; nothing if a figure is missing or no machine has so much.
std::optional<std::int64_t> value_of(std::string_view expression, const LogMessage& message);

}  // namespace headroom::doctor
