// malloc, free, new and delete, as nearly all calls go: see fast_path.h. In one file, so that their code lies
// together, and without frame pointers, so that the usual way of each goes through two lines of it.
#include "tracer/fast_path.h"
#include "tracer/real_functions.h"
#include "tracer/slow_path.h"

using namespace headroom::tracer;

// By names of their own they know each other without asking the loader's table.
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

// The standard library's does no more than free; its sized one, no more than the plain one. Where that is
// known, the way is open, and what is not counted need not go through both of them and come here again. (What
// is allocated does: a recorded stack has the operator in it, whichever way was open.)
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

// The standard library's asks malloc for a byte where none is wanted, which the C library's does by itself;
// where malloc has none, it calls the program's handler and throws, which is left to it.
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

namespace headroom::tracer {

bool are_hot_hooks_in_force() {
  const auto is_ours = [](const char* name, auto function) {
    return ::dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(function);
  };
  return is_ours("malloc", headroom_trace_malloc) && is_ours("free", headroom_trace_free) &&
         is_ours("_Znwm", headroom_trace_new) && is_ours("_ZdlPv", headroom_trace_delete);
}

}  // namespace headroom::tracer
