// Patterns of log lines, the left side of a rule: text with named captures.
//
//   "Failed to allocate {requested_bytes} bytes on device {gpu:int}"
//
// A pattern may begin anywhere in the line. "…" stands for any text. "^" is the begin of the line and "$" its
// end, both without spaces. Two spaces stand for two or more. A capture is {name} or {name:type}:
//   {x_bytes}      a size with or without a unit, as leading_size() reads it (the name ends in _bytes), also
//                  behind a quotation mark
//   {x_bytes:unit} the same with a unit: without one the line is cut off
//   {x_bytes:MiB}  a number that stands for so many MiB, or GiB
//   {x_bytes:quantity}  a quantity of Kubernetes ("500M" is 500,000,000)
//   {x:int}        an integer; {x:int>0}, {:int=2}: one that compares so
//   {x:decimal}    digits and points, kept as text
//   {x:word}       up to a space, without the punctuation at its end
//   {x:service}    a unit of systemd, before a colon or a space: "vision" of "vision.service", "a.scope"
//   {x}            text up to what follows in the pattern, or to the end of the line
// A capture without a name adds no figure: {:size}, {:int=2}, {:word}.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Adds the figures of the captures to the message, unless it has them already. False: the line does not
// match, and the message is as before.
bool match_pattern(std::string_view pattern, std::string_view line, LogMessage& message);

// The literal text of a pattern that is best to search for: long enough for AnchorSearch, and of the rarest
// letters. Empty if the pattern has none.
std::string_view anchor_of_pattern(std::string_view pattern);
// Whether a search for the first stops at fewer places of a log. An empty one is never rarer.
bool is_rarer_anchor(std::string_view anchor, std::string_view than);

}  // namespace headroom::doctor
