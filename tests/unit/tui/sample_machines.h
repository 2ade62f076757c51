// Samples of three machines: a Jetson (from a file tree), a desktop with a GPU, and a plain VM.
#pragma once

#include "types/sample.h"

namespace headroom::tui {

SystemSample orin_sample();
SystemSample desktop_sample();
SystemSample vm_sample();

}  // namespace headroom::tui
