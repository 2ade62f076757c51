// CLOCK_MONOTONIC by the processor's counter, where that runs at one rate: 20 ns a reading where the kernel's
// takes 46 on a virtual machine, four of them for each call of a small module.
#pragma once

#include <cstdint>

namespace headroom::memory_tracer {

// Before the first reading; takes 10 ms, once.
void calibrate_clock();
std::int64_t now_ns();

}  // namespace headroom::memory_tracer
