// malloc, free, new and delete, as nearly all calls go: see short_way.h. In one file, so that their code lies
// together.
#include "tracer/long_way.h"
#include "tracer/real_functions.h"
#include "tracer/short_way.h"

using namespace headroom::tracer;

namespace {

bool may_take_operators() { return short_way.has_operators.load(std::memory_order_relaxed) != 0; }

}  // namespace

// By names of their own they call each other without asking the loader's table, and know themselves.
extern "C" {

[[gnu::hot, gnu::visibility("hidden")]] void headroom_trace_free(void* pointer) {
  if (__builtin_expect(!is_bootstrap(pointer) && short_way.counts_release(pointer), 1))
    return short_way.free(pointer);
  release_long_way(pointer);
}

// The standard library's does no more than free; its sized one, no more than the plain one.
[[gnu::hot, gnu::visibility("hidden")]] void headroom_trace_delete(void* pointer) {
  if (__builtin_expect(may_take_operators(), 1)) return headroom_trace_free(pointer);
  delete_long_way(pointer);
}
[[gnu::hot, gnu::visibility("default")]] void _ZdlPvm(void* pointer, std::size_t size) {
  if (__builtin_expect(may_take_operators(), 1)) return headroom_trace_free(pointer);
  delete_sized_long_way(pointer, size);
}

[[gnu::hot, gnu::visibility("hidden")]] void* headroom_trace_malloc(std::size_t size) {
  if (__builtin_expect(!short_way.counts_allocation(size), 0)) return allocate_long_way(size);
  void* const pointer = short_way.malloc(size);
  if (__builtin_expect(pointer == nullptr, 0)) count_failed_allocation();
  return pointer;
}

// The standard library's asks malloc for a byte where none is wanted; where malloc has none, it calls the
// program's handler and throws, which is left to it.
[[gnu::hot, gnu::visibility("hidden")]] void* headroom_trace_new(std::size_t size) {
  if (__builtin_expect(may_take_operators() && size != 0 && short_way.counts_allocation(size), 1)) {
    void* const pointer = short_way.malloc(size);
    if (__builtin_expect(pointer != nullptr, 1)) return pointer;
    count_failed_allocation();
  }
  return new_long_way(size);
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
