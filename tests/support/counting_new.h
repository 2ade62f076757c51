// Counts the allocations of a program that links counting_new.cpp.
#pragma once

#include <cstdint>

namespace headroom::test {

std::int64_t allocations_so_far();

}  // namespace headroom::test
