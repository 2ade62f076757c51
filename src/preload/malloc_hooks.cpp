// The hooks of the malloc family; malloc and free themselves are in hot_hooks.cpp. Each hook calls the real
// function and then records what happened. When the thread is already inside a hook, or nothing is recorded,
// it only forwards.
#include <cerrno>
#include <cstring>

#include "preload/real_functions.h"
#include "preload/recorder.h"
#include "preload/slow_path.h"

using namespace headroom::preload;

namespace {

[[gnu::always_inline]] inline bool should_record(ThreadLocal& thread) {
  if (__builtin_expect(thread.is_busy(), 0)) {
    ++thread.nested_calls;
    return false;
  }
  return is_recording(thread);
}

}  // namespace

namespace headroom::preload {

[[gnu::noinline]] void* allocate_slow_path(std::size_t size) {
  if (!real.is_resolved() && !resolve_allocator()) return bootstrap_allocate(size, 16);
  ThreadLocal& thread = thread_local_state;
  if (!should_record(thread)) return real.allocate(size);
  const OuterGuard guard(thread);
  void* const pointer = real.allocate(size);
  if (pointer != nullptr && !is_only_counted(thread, size))
    record_chosen(thread, pointer, size, caller_of_this_function());
  return pointer;
}

[[gnu::noinline]] void release_slow_path(void* pointer) {
  if (pointer == nullptr || is_bootstrap(pointer)) return;
  if (!real.is_resolved() && !resolve_allocator()) return;
  ThreadLocal& thread = thread_local_state;
  if (!should_record(thread)) return real.free(pointer);
  const OuterGuard guard(thread);
  finish_release(thread, begin_release(pointer));
  real.free(pointer);
}

}  // namespace headroom::preload

HEADROOM_HOOK void* calloc(std::size_t count, std::size_t size) {
  if (!real.is_resolved() && !resolve_allocator()) return bootstrap_allocate(count * size, 16);  // zeroed
  ThreadLocal& thread = thread_local_state;
  if (!should_record(thread)) return real.calloc(count, size);
  const OuterGuard guard(thread);
  void* const pointer = real.calloc(count, size);
  if (pointer != nullptr && !is_only_counted(thread, count * size))
    record_chosen(thread, pointer, count * size, caller_of_this_function());
  return pointer;
}

namespace {

void* move_out_of_bootstrap(void* pointer, std::size_t size) {
  void* const moved = real.allocate(size);
  const std::size_t old_size = bootstrap_size(pointer);
  if (moved != nullptr) std::memcpy(moved, pointer, old_size < size ? old_size : size);
  return moved;
}

// Records a release and an allocation. The release is cancelled if the reallocation fails. In glibc,
// realloc(p, 0) frees the block and returns null.
template <class Reallocate>
[[gnu::always_inline]] inline void* record_realloc(ThreadLocal& thread, void* pointer, std::size_t size,
                                                   const CallFrame& caller, Reallocate&& reallocate) {
  const OuterGuard guard(thread);
  if (pointer == nullptr) {
    void* const fresh = reallocate();
    if (fresh != nullptr && !is_only_counted(thread, size)) record_chosen(thread, fresh, size, caller);
    return fresh;
  }
  attach_before_stamp(thread);
  const Release release = begin_release(pointer);
  const int errno_before = errno;
  errno = 0;
  void* const moved = reallocate();
  const bool has_failed = moved == nullptr && (size != 0 || errno != 0);
  if (errno == 0) errno = errno_before;
  if (has_failed) {
    cancel_release(release);
    return nullptr;
  }
  finish_release(thread, release);
  if (moved != nullptr && !is_only_counted(thread, size)) record_chosen(thread, moved, size, caller);
  return moved;
}

}  // namespace

HEADROOM_HOOK void* realloc(void* pointer, std::size_t size) {
  if (!real.is_resolved() && !resolve_allocator()) {
    void* const moved = bootstrap_allocate(size, 16);
    if (moved != nullptr && pointer != nullptr)
      std::memcpy(moved, pointer, bootstrap_size(pointer) < size ? bootstrap_size(pointer) : size);
    return moved;
  }
  if (is_bootstrap(pointer)) return move_out_of_bootstrap(pointer, size);
  ThreadLocal& thread = thread_local_state;
  if (!should_record(thread)) return real.realloc(pointer, size);
  return record_realloc(thread, pointer, size, caller_of_this_function(),
                        [&] { return real.realloc(pointer, size); });
}

HEADROOM_HOOK void* reallocarray(void* pointer, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (!resolve_allocator()) return nullptr;
  if (is_bootstrap(pointer)) return move_out_of_bootstrap(pointer, bytes);
  ThreadLocal& thread = thread_local_state;
  // Some allocators lack reallocarray; then their realloc is used.
  if (!should_record(thread))
    return real.reallocarray != nullptr ? real.reallocarray(pointer, count, size)
                                        : real.realloc(pointer, bytes);
  return record_realloc(thread, pointer, bytes, caller_of_this_function(), [&] {
    return real.reallocarray != nullptr ? real.reallocarray(pointer, count, size)
                                        : real.realloc(pointer, bytes);
  });
}

HEADROOM_HOOK int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  if (!real.is_resolved() && !resolve_allocator())
    return (*result = bootstrap_allocate(size, alignment)) != nullptr ? 0 : ENOMEM;
  ThreadLocal& thread = thread_local_state;
  if (!should_record(thread)) return real.posix_memalign(result, alignment, size);
  const OuterGuard guard(thread);
  const int error = real.posix_memalign(result, alignment, size);
  if (error == 0 && *result != nullptr && !is_only_counted(thread, size))
    record_chosen(thread, *result, size, caller_of_this_function());
  return error;
}

// The other aligned functions differ only in their arguments.
#define HEADROOM_HOOK_ALIGNED(NAME, PARAMETERS, ARGUMENTS, SIZE, ALIGNMENT)                      \
  HEADROOM_HOOK void* NAME PARAMETERS {                                                          \
    if (!real.is_resolved() && !resolve_allocator()) return bootstrap_allocate(SIZE, ALIGNMENT); \
    ThreadLocal& thread = thread_local_state;                                                    \
    if (real.NAME == nullptr) return nullptr;                                                    \
    if (!should_record(thread)) return real.NAME ARGUMENTS;                                      \
    const OuterGuard guard(thread);                                                              \
    void* const pointer = real.NAME ARGUMENTS;                                                   \
    if (pointer != nullptr && !is_only_counted(thread, SIZE))                                    \
      record_chosen(thread, pointer, SIZE, caller_of_this_function());                           \
    return pointer;                                                                              \
  }

HEADROOM_HOOK_ALIGNED(aligned_alloc, (std::size_t alignment, std::size_t size), (alignment, size), size,
                      alignment)
HEADROOM_HOOK_ALIGNED(memalign, (std::size_t alignment, std::size_t size), (alignment, size), size, alignment)
HEADROOM_HOOK_ALIGNED(valloc, (std::size_t size), (size), size, 4096)
HEADROOM_HOOK_ALIGNED(pvalloc, (std::size_t size), (size), size, 4096)
