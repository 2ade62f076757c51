// CLOCK_MONOTONIC, computed from the processor's counter if that runs at one rate. A reading takes 20 ns; the
// kernel's takes 46 ns on a virtual machine, and each call of a small module needs four.
#pragma once

#include <cstdint>

namespace headroom::memory_tracer {

// Call it before the first reading; takes 10 ms, once.
void calibrate_clock();
std::int64_t now_ns();

}  // namespace headroom::memory_tracer
