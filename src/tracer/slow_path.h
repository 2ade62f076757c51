// The hooks of malloc, free, new and delete for all that the short way (fast_path.h) leaves to them: the
// allocator's look-up, what is recorded and not only counted, other allocators and operators. To be called as
// the last thing in a hook: whose caller is taken for the program's.
#pragma once

#include <cstddef>

namespace headroom::tracer {

void* allocate_slow_path(std::size_t size);
void release_slow_path(void* pointer);
void* new_slow_path(std::size_t size);
void delete_slow_path(void* pointer);
void delete_sized_slow_path(void* pointer, std::size_t size);

// Whether who calls malloc, free, new or delete by name gets this library's: a program may have its own.
bool are_hot_hooks_in_force();

}  // namespace headroom::tracer
