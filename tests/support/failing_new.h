// Makes allocations fail in a program that links failing_new.cpp.
#pragma once

namespace headroom::test {

// Makes one later allocation of this thread throw std::bad_alloc: 0 is the next one; a negative count
// disables it.
void fail_allocation(int count);
// Returns whether that allocation has thrown.
bool allocation_has_failed();

}  // namespace headroom::test
