// The hooks of the malloc family; malloc and free themselves are in hot_hooks.cpp. Each hook calls the real
// function and then records what happened. When the thread is already inside a hook, or nothing is recorded,
// it only forwards.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "preload/fast_path.h"
#include "preload/memory.h"
#include "preload/real_functions.h"
#include "preload/recorder.h"

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
  prefetch_frame_rule(caller_of_this_function());  // while the allocator works
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
  if (process.large_bytes == 0)
    record_release_in_full(thread, pointer);
  else
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

// The hooks of mmap, munmap, mremap, mprotect, brk and sbrk. They record only the program's own calls. An
// allocator's calls are not events: the thread's guard is set then, or the call bypasses the hooks (in the C
// library).

namespace {

using Mmap = void* (*)(void*, std::size_t, int, int, int, off_t);
NextFunction<Mmap> next_mmap("mmap"), next_mmap64("mmap64");
NextFunction<int (*)(void*, std::size_t)> next_munmap("munmap");
NextFunction<void* (*)(void*, std::size_t, std::size_t, int, ...)> next_mremap("mremap");
NextFunction<int (*)(void*, std::size_t, int)> next_mprotect("mprotect");
NextFunction<int (*)(void*)> next_brk("brk");
NextFunction<void* (*)(std::intptr_t)> next_sbrk("sbrk");

// Looks the functions up before any fork: the lookup takes the loader's lock, which may stay locked in a
// child.
[[gnu::constructor]] void resolve_mapping_functions() {
  next_mmap.get();
  next_mmap64.get();
  next_munmap.get();
  next_mremap.get();
  next_mprotect.get();
  next_brk.get();
  next_sbrk.get();
}

bool should_record_mapping(ThreadLocal& thread) { return !thread.is_busy() && is_recording(thread); }

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// All address ranges that were reserved without access lie between these two. Only there can mprotect turn
// addresses into memory. Elsewhere the tracer ignores mprotect, which just-in-time compilers call all the
// time.
std::atomic<std::uint64_t> reserved_from{~std::uint64_t{0}}, reserved_to{0};

void extend_reserved(std::uint64_t from, std::uint64_t to) {
  std::uint64_t known = reserved_from.load(std::memory_order_relaxed);
  while (from < known && !reserved_from.compare_exchange_weak(known, from)) {
  }
  known = reserved_to.load(std::memory_order_relaxed);
  while (to > known && !reserved_to.compare_exchange_weak(known, to)) {
  }
}
bool may_be_reserved(std::uint64_t from, std::uint64_t size) {
  return from < reserved_to.load(std::memory_order_relaxed) &&
         from + size > reserved_from.load(std::memory_order_relaxed);
}

// MAP_FIXED replaces older mappings in its range: the analysis treats their overlapped parts as unmapped.
[[gnu::always_inline]] inline void* record_mmap(Mmap next, void* address, std::size_t size, int protection,
                                                int flags, int fd, off_t offset, const CallFrame& caller) {
  ThreadLocal& thread = thread_local_state;
  if (!should_record_mapping(thread)) return next(address, size, protection, flags, fd, offset);
  const Guard guard(thread);
  void* const mapped = next(address, size, protection, flags, fd, offset);
  if (mapped == MAP_FAILED) return mapped;
  if (protection == PROT_NONE) {
    extend_reserved(number(mapped), number(mapped) + size);
    record_reservation(thread, number(mapped), size, caller);
  } else {
    record_map(thread, number(mapped), size, caller);
  }
  return mapped;
}

// Records that the end of the data segment moved. Recorded addresses are multiples of 8, but the end need not
// be one. Rounding both ends up keeps the sum right when the segment grows byte by byte.
void record_break(ThreadLocal& thread, const void* before, const void* after, std::uint64_t time,
                  const CallFrame& caller) {
  const std::uint64_t from = (number(before) + 7) / 8 * 8, to = (number(after) + 7) / 8 * 8;
  if (to > from) record_map(thread, from, to - from, caller);
  if (to < from) record_unmap(thread, to, from - to, time);
}

}  // namespace

HEADROOM_HOOK void* mmap(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
  return record_mmap(next_mmap.get(), address, size, protection, flags, fd, offset,
                     caller_of_this_function());
}

HEADROOM_HOOK void* mmap64(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
  return record_mmap(next_mmap64.get(), address, size, protection, flags, fd, offset,
                     caller_of_this_function());
}

HEADROOM_HOOK int munmap(void* address, std::size_t size) {
  const auto next = next_munmap.get();
  ThreadLocal& thread = thread_local_state;
  if (!should_record_mapping(thread)) return next(address, size);
  const Guard guard(thread);
  attach_before_stamp(thread);
  const std::uint64_t time = time_now();
  const int result = next(address, size);
  if (result == 0) record_unmap(thread, number(address), size, time);
  return result;
}

HEADROOM_HOOK int mprotect(void* address, std::size_t size, int protection) {
  const auto next = next_mprotect.get();
  const int result = next(address, size, protection);
  if (result != 0 || protection == PROT_NONE || !may_be_reserved(number(address), size)) return result;
  ThreadLocal& thread = thread_local_state;
  if (!should_record_mapping(thread)) return result;
  const Guard guard(thread);
  record_accessible(thread, number(address), size, caller_of_this_function());
  return result;
}

HEADROOM_HOOK void* mremap(void* old_address, std::size_t old_size, std::size_t new_size, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  const auto next = next_mremap.get();
  ThreadLocal& thread = thread_local_state;
  if (!should_record_mapping(thread)) return next(old_address, old_size, new_size, flags, wanted);
  const Guard guard(thread);
  attach_before_stamp(thread);
  const std::uint64_t time = time_now();
  void* const moved = next(old_address, old_size, new_size, flags, wanted);
  if (moved == MAP_FAILED) return moved;
  if (old_size != 0) record_unmap(thread, number(old_address), old_size, time);
  record_map(thread, number(moved), new_size, caller_of_this_function());
  return moved;
}

HEADROOM_HOOK void* sbrk(std::intptr_t increment) {
  const auto next = next_sbrk.get();
  ThreadLocal& thread = thread_local_state;
  if (increment == 0 || !should_record_mapping(thread)) return next(increment);
  const Guard guard(thread);
  attach_before_stamp(thread);
  const std::uint64_t time = time_now();
  void* const before = next(increment);
  if (before == reinterpret_cast<void*>(-1)) return before;
  record_break(thread, before, static_cast<char*>(before) + increment, time, caller_of_this_function());
  return before;
}

HEADROOM_HOOK int brk(void* end) {
  const auto next = next_brk.get();
  ThreadLocal& thread = thread_local_state;
  if (!should_record_mapping(thread)) return next(end);
  const Guard guard(thread);
  attach_before_stamp(thread);
  const void* const before = next_sbrk.get()(0);
  const std::uint64_t time = time_now();
  const int result = next(end);
  if (result == 0) record_break(thread, before, end, time, caller_of_this_function());
  return result;
}
