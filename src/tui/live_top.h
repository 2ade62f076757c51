// `headroom top` on a terminal: takes samples of the machine or a log, handles keys, and draws the screen.
#pragma once

#include "base/result.h"
#include "tui/run_top.h"

namespace headroom::tui {

// Runs until a key, a signal or the end of the terminal. Returns the exit code.
Result<int> run_live_top(TopOptions options);

}  // namespace headroom::tui
