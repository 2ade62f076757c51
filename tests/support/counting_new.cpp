// A separate file: if the compiler sees both sides, it warns that malloc and delete do not match.
#include "support/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

extern "C" const char __executable_start, etext;  // made by the linker

namespace {
std::atomic<std::int64_t> allocations{0}, own_allocations{0};
}

namespace headroom::test {
std::int64_t allocations_so_far() { return allocations; }
std::int64_t own_allocations_so_far() { return own_allocations; }
}  // namespace headroom::test

void* operator new(std::size_t size) {
  ++allocations;
  const auto* caller = static_cast<const char*>(__builtin_return_address(0));
  if (caller >= &__executable_start && caller < &etext) ++own_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
