// Parses the output of tegrastats into samples: a log, a pipe or the program itself, for all Jetson
// generations (L4T 21 to 39). docs/monitor-sources.md lists the content for each board.
#pragma once

#include <string_view>

#include "types/sample.h"

namespace headroom::sources {

// Fills the sample with the figures of one line. The old content is cleared and its memory reused. Tokens
// are recognized by their shape, never by their position: tegrastats changes both with every release, and
// omits figures that it has no permission to read. Unknown text goes into unknown_tokens unchanged. A gated
// rail's -256 °C and the PMIC's constant 100 or 50 °C are absent. If a complete line has no swap, the machine
// has none: the total is 0. Returns false if nothing in the line comes from tegrastats.
bool read_tegrastats_line(std::string_view line, SystemSample& sample);

}  // namespace headroom::sources
