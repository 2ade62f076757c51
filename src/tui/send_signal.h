// Sends a signal to the process that the user selected. Fails if its PID now belongs to another process.
#pragma once

#include "base/result.h"
#include "types/sample.h"

namespace headroom::tui {

Status send_signal(const ProcessSample& process, int signal);

}  // namespace headroom::tui
