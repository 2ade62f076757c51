// A separate file: if the compiler sees both sides, it warns that malloc and delete do not match.
#include "support/failing_new.h"

#include <cstdlib>
#include <new>

namespace {
constexpr int kNone = -1;
thread_local int left = kNone;
thread_local bool has_failed = false;
}  // namespace

namespace headroom::test {
void fail_allocation(int count) {
  left = count;
  has_failed = false;
}
bool allocation_has_failed() { return has_failed; }
}  // namespace headroom::test

void* operator new(std::size_t size) {
  if (left >= 0 && left-- == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
