// Implements `headroom watch`: writes samples of this machine, or of another tool's output, to the screen
// and to files.
#pragma once

#include "base/result.h"
#include "watch/console.h"
#include "watch/watch_options.h"

namespace headroom::watch {

// Runs until the text ends, the duration is over or a signal comes. Returns the exit code. With a log or
// alerts, a sample is not printed if the console is blocked; skipped samples are counted.
Result<int> run_watch(const WatchOptions& options, Console& console);

}  // namespace headroom::watch
