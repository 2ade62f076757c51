// What tegrastats prints, as samples: a log, a pipe or the program itself, of all Jetson generations (L4T 21
// to 39). docs/monitor-sources.md has what each of them tells.
#pragma once

#include <string>
#include <string_view>

#include "model/sample.h"

namespace headroom::sources {

// Fills the sample with what one line tells; what was in it is cleared, its memory is kept. Tokens are known
// by their shape, never by their place: tegrastats changes both with every release, and leaves out what it
// may not read. What is not understood goes into unknown_tokens as it stands there. A gated rail's -256 °C
// and the PMIC's constant 100 or 50 °C are absent. Swap that a whole line does not name is none: a total of
// 0. False if the line has nothing of tegrastats in it.
bool read_tegrastats_line(std::string_view line, SystemSample& sample);

}  // namespace headroom::sources
