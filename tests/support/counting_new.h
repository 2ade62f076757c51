// Counts the allocations of a program that links counting_new.cpp.
#pragma once

#include <cstdint>

namespace headroom::test {

std::int64_t allocations_so_far();
// Those that the program's own code asked for, not a shared library.
std::int64_t own_allocations_so_far();

}  // namespace headroom::test
