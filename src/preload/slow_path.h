// The allocation slow path: everything that the fast path (fast_path.h) cannot handle. It looks up the real
// allocator, records allocations that counting alone does not cover, and supports allocators and operators
// other than glibc's. Call these functions last in a hook (as a tail call), because they record their return
// address as the program's code.
#pragma once

#include <cstddef>

namespace headroom::preload {

void* allocate_slow_path(std::size_t size);
void release_slow_path(void* pointer);
void* new_slow_path(std::size_t size);
void delete_slow_path(void* pointer);
void delete_sized_slow_path(void* pointer, std::size_t size);

// Whether calls of malloc, free, new and delete by name reach this library: a program may define its own.
bool are_hot_hooks_in_force();

}  // namespace headroom::preload
