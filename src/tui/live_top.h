// `headroom top` on a terminal: samples of the machine or of a log, keys, and the screen that shows them.
#pragma once

#include "base/result.h"
#include "tui/run_top.h"

namespace headroom::tui {

// Until a key, a signal or the end of the terminal ends it. Returns the exit code.
Result<int> run_live_top(TopOptions options);

}  // namespace headroom::tui
