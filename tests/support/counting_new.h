// Counts the allocations of the program that counting_new.cpp is linked into.
#pragma once

#include <cstdint>

namespace headroom::test {

std::int64_t allocations_so_far();

}  // namespace headroom::test
