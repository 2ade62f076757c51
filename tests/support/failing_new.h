// Lets allocations fail in the program that failing_new.cpp is linked into.
#pragma once

namespace headroom::test {

// The `count`-th allocation of this thread from now on, 0 the next, throws std::bad_alloc; negative: none.
void fail_allocation(int count);
// Whether it has come to that.
bool allocation_has_failed();

}  // namespace headroom::test
