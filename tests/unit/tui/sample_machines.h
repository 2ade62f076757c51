// Three machines as `headroom top` sees them: a Jetson from a file tree, a desktop with a GPU, a bare VM.
#pragma once

#include "model/sample.h"

namespace headroom::tui {

SystemSample orin_sample();
SystemSample desktop_sample();
SystemSample vm_sample();

}  // namespace headroom::tui
