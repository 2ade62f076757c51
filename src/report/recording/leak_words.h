// What a verdict about leaks says, in words.
#pragma once

#include <string>

#include "attribution/cycle_leaks.h"

namespace headroom::report {

// The verdict on one cycle, a sentence or two: "Leak: net/run leaves 3.0 KiB more behind with each of 11
// cycles."
std::string words_for_leaks(const attribution::LeakVerdict& leaks);

// "2 more layers repeat, which were not watched."
std::string words_for_cycles_left_out(const attribution::LeakVerdict& leaks);

// "3.0 KiB", and of what grows by a byte in several cycles "under 1 B"; never "0 B".
std::string words_for_slow_growth(double bytes);

}  // namespace headroom::report
