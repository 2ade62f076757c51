// `headroom watch`: samples of this machine, or of another tool's text, to the screen and to files.
#pragma once

#include "base/result.h"
#include "watch/console.h"
#include "watch/watch_options.h"

namespace headroom::watch {

// Runs until the text ends, the duration is over or a signal comes. Returns the exit code. Where there is a
// log or are alerts, a reader of the console that stands still has samples left out, which are counted.
Result<int> run_watch(const WatchOptions& options, Console& console);

}  // namespace headroom::watch
