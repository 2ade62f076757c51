// The hooks of malloc, free, new and delete, with the fast path inlined (fast_path.h). They share one file so
// that their code is contiguous. They have no frame pointers, so that the normal case of each runs through
// two cache lines of code.
#include "preload/fast_path.h"
#include "preload/real_functions.h"

using namespace headroom::preload;

// The hooks call each other by these hidden names, without a lookup through the loader's table.
extern "C" {

[[gnu::hot, gnu::aligned(kCacheLine), gnu::visibility("hidden")]] void headroom_trace_free(void* pointer) {
  const auto path = fast_path.read_for_release(fast_path.for_malloc);
  if (__builtin_expect(FastPath::counts_release(path, pointer), 1)) return path.function(pointer);
  release_slow_path(pointer);
}

[[gnu::hot, gnu::aligned(kCacheLine), gnu::visibility("hidden")]] void* headroom_trace_malloc(
    std::size_t size) {
  const auto path = fast_path.read_for_allocation(fast_path.for_malloc);
  if (__builtin_expect(!FastPath::counts_allocation(path, size), 0)) return allocate_slow_path(size);
  void* const pointer = path.function(size);
  if (__builtin_expect(pointer == nullptr, 0)) count_failed_allocation();
  return pointer;
}

// The standard library's delete only calls free, and its sized delete only calls the plain one. Where that is
// known, the fast path for operators is open, and a release that is only counted skips both calls.
// (Allocations that are recorded take them: a recorded stack contains the operator, whether or not the fast
// path was open.)
[[gnu::hot, gnu::aligned(kCacheLine), gnu::visibility("hidden")]] void headroom_trace_delete(void* pointer) {
  const auto path = fast_path.read_for_release(fast_path.for_operators);
  if (__builtin_expect(FastPath::counts_release(path, pointer), 1)) return path.function(pointer);
  if (path.distance != 0) return release_slow_path(pointer);
  delete_slow_path(pointer);
}
[[gnu::hot, gnu::aligned(kCacheLine), gnu::visibility("default")]] void _ZdlPvm(void* pointer,
                                                                                std::size_t size) {
  const auto path = fast_path.read_for_release(fast_path.for_operators);
  if (__builtin_expect(FastPath::counts_release(path, pointer), 1)) return path.function(pointer);
  if (path.distance != 0) return release_slow_path(pointer);
  delete_sized_slow_path(pointer, size);
}

// The standard library's new requests one byte where zero are asked for; the C library's malloc does the
// same. When malloc fails, the standard library's new calls the program's handler and throws, so that case is
// left to it.
[[gnu::hot, gnu::aligned(kCacheLine), gnu::visibility("hidden")]] void* headroom_trace_new(std::size_t size) {
  const auto path = fast_path.read_for_allocation(fast_path.for_operators);
  if (__builtin_expect(FastPath::counts_allocation(path, size), 1)) {
    void* const pointer = path.function(size);
    if (__builtin_expect(pointer != nullptr, 1)) return pointer;
    count_failed_allocation();
  }
  return new_slow_path(size);
}

}  // extern "C"

HEADROOM_HOOK void* malloc(std::size_t size) __attribute__((hot, alias("headroom_trace_malloc")));
HEADROOM_HOOK void free(void* pointer) __attribute__((hot, alias("headroom_trace_free")));
HEADROOM_HOOK void* _Znwm(std::size_t size) __attribute__((hot, alias("headroom_trace_new")));
HEADROOM_HOOK void _ZdlPv(void* pointer) __attribute__((hot, alias("headroom_trace_delete")));

namespace headroom::preload {

bool are_hot_hooks_in_force() {
  const auto is_ours = [](const char* name, auto function) {
    return ::dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(function);
  };
  return is_ours("malloc", headroom_trace_malloc) && is_ours("free", headroom_trace_free) &&
         is_ours("_Znwm", headroom_trace_new) && is_ours("_ZdlPv", headroom_trace_delete);
}

}  // namespace headroom::preload
