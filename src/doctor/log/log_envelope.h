// What loggers and container runtimes put around a program's line, taken off before the rules read it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom::doctor {

// The program's own text: without terminal control; the string behind "MESSAGE" of `journalctl -o json` (or
// its array of bytes, which stands there for coloured text), "log" of Docker's files, "message" or "msg" of
// loggers that write JSON, with its escapes resolved; and without "TIME stderr F " of Kubernetes' nodes. It
// may have several lines. Any other line is given back as it is. `buffer` holds the text where it differs.
std::string_view without_envelope(std::string_view line, std::string& buffer);

// By which a line is found whose text is an array of bytes, in which no other word can be.
const std::vector<std::string_view>& envelope_anchors();

}  // namespace headroom::doctor
