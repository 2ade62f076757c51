// A signal to the process that the user saw, and to no other that has its number by now.
#pragma once

#include "base/result.h"
#include "model/sample.h"

namespace headroom::tui {

Status send_signal(const ProcessSample& process, int signal);

}  // namespace headroom::tui
