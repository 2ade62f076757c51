// The hooks of operator new and delete; the plain forms reach this file from hot_hooks.cpp.
//
// The standard library's operators call malloc, where their allocations are recorded. Then these hooks only
// jump on, without a stack frame. Allocators such as jemalloc, tcmalloc and mimalloc bring operators that do
// not call malloc; those are recorded here. A trial, once per process, finds out which kind is present.
//
// A program that defines its own operators is not affected: its definitions precede these, and the malloc or
// mmap calls inside them are recorded. The standard library's other forms (new[], nothrow, aligned) call the
// program's plain ones. So the trial releases its block with the matching form, never with another library's
// plain delete.
//
// The signatures use no C++ types: the library needs no C++ runtime, and a program that loads one later,
// privately, must still find it.
#include <cstdlib>
#include <cstring>

#include "preload/fast_path.h"
#include "preload/real_functions.h"
#include "preload/recorder.h"

using namespace headroom::preload;

namespace {

struct Nothrow {};
const Nothrow nothrow;

// The address is kept for good, so its library must stay loaded. The loader guarantees that only for symbols
// that it binds itself.
void* pinned(void* function) {
  Dl_info info{};
  if (function != nullptr && ::dladdr(function, &info) != 0 && info.dli_fname != nullptr)
    next_dlopen.get()(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return function;
}

// Finds the next definition, or that of a C++ runtime that was loaded outside the global scope.
void* find_operator(const char* name) {
  if (void* found = find_next(name)) return pinned(found);
  for (const char* runtime : {"libstdc++.so.6", "libc++.so.1"})
    if (void* handle = next_dlopen.get()(runtime, RTLD_LAZY | RTLD_NOLOAD)) {
      void* const found = pinned(::dlsym(handle, name));
      next_dlclose.get()(handle);
      if (found != nullptr) return found;
    }
  return nullptr;
}

template <class Function>
class Operator {
 public:
  constexpr explicit Operator(const char* name) : name_(name) {}
  Function get() {
    void* address = address_.load(std::memory_order_relaxed);
    if (__builtin_expect(address == nullptr, 0)) address_.store(address = find_operator(name_));
    return reinterpret_cast<Function>(address);
  }

 private:
  const char* name_;
  std::atomic<void*> address_{nullptr};
};

using New = void* (*)(std::size_t);
using NewNothrow = void* (*)(std::size_t, const Nothrow&);
using NewAligned = void* (*)(std::size_t, std::size_t);
using NewAlignedNothrow = void* (*)(std::size_t, std::size_t, const Nothrow&);
using DeleteNothrow = void (*)(void*, const Nothrow&);

Operator<New> next_new_array("_Znam");
Operator<NewNothrow> next_new_nothrow("_ZnwmRKSt9nothrow_t"), next_new_array_nothrow("_ZnamRKSt9nothrow_t");
Operator<NewAligned> next_new_aligned("_ZnwmSt11align_val_t"), next_new_array_aligned("_ZnamSt11align_val_t");
Operator<NewAlignedNothrow> next_new_aligned_nothrow("_ZnwmSt11align_val_tRKSt9nothrow_t"),
    next_new_array_aligned_nothrow("_ZnamSt11align_val_tRKSt9nothrow_t");
Operator<DeleteNothrow> next_delete_nothrow("_ZdlPvRKSt9nothrow_t");

// How the next definition of the operators allocates. `standard`: the standard library's, which consist of
// malloc and free. `ours`: in addition, malloc, free, new and delete by name are this library's, so that
// nothing is between the standard library's delete and this library's free. `through_malloc`: a library may
// replace only the plain forms, because the other forms call them; the hooks jump to them. `own`: without
// malloc, so the hooks record.
enum class Route : int { untried, through_malloc, standard, ours, own };

// The forms that nearly all calls use, in one cache line.
struct alignas(kCacheLine) Plain {
  std::atomic<Route> route{Route::untried};
  Operator<New> next_new{"_Znwm"};
  Operator<void (*)(void*)> next_delete{"_ZdlPv"};
  Operator<void (*)(void*, std::size_t)> next_sized_delete{"_ZdlPvm"};
};
static_assert(sizeof(Plain) == kCacheLine);
constinit Plain plain;

// Recognizes the standard library without a trial, because the trial would call operators that the program
// defines.
template <class Function>
bool is_of_standard_library(Function function) {
  Dl_info info{};
  if (function == nullptr || ::dladdr(reinterpret_cast<void*>(function), &info) == 0 ||
      info.dli_fname == nullptr)
    return false;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const name = slash != nullptr ? slash + 1 : info.dli_fname;
  return std::strncmp(name, "libstdc++.so", 12) == 0 || std::strncmp(name, "libc++.so", 9) == 0 ||
         std::strncmp(name, "libc++abi.so", 12) == 0;
}

[[gnu::noinline, gnu::cold]] Route try_out(ThreadLocal& thread) {
  const NewNothrow allocate = next_new_nothrow.get();
  const DeleteNothrow release = next_delete_nothrow.get();
  // a C++ runtime may be loaded later
  if (allocate == nullptr || release == nullptr) return Route::through_malloc;
  const Guard guard(thread);
  if (is_of_standard_library(allocate)) {
    const bool are_all = is_of_standard_library(plain.next_new.get()) &&
                         is_of_standard_library(plain.next_delete.get()) &&
                         is_of_standard_library(plain.next_sized_delete.get());
    const Route route = are_all ? Route::standard : Route::through_malloc;
    plain.route.store(route, std::memory_order_relaxed);
    if (are_all && are_hot_hooks_in_force()) {
      open_fast_path_for_operators();
      plain.route.store(Route::ours, std::memory_order_relaxed);
    }
    return route;
  }
  release(allocate(16, nothrow), nothrow);  // an allocator's first call may do more than later ones
  const std::uint32_t calls_before = thread.nested_calls;
  void* const pointer = allocate(16, nothrow);
  const Route found = thread.nested_calls != calls_before ? Route::through_malloc : Route::own;
  release(pointer, nothrow);
  plain.route.store(found, std::memory_order_relaxed);
  return found;
}

[[gnu::always_inline]] inline bool should_record_here(ThreadLocal& thread) {
  const Route known = plain.route.load(std::memory_order_relaxed);
  if (__builtin_expect(known == Route::ours, 1) || known == Route::standard ||
      known == Route::through_malloc || thread.is_busy())
    return false;
  if (known == Route::untried && try_out(thread) != Route::own) return false;
  return is_recording(thread);
}

// Without a C++ runtime, no exception can be thrown.
void* allocate_or_die(std::size_t size, std::size_t alignment) {
  void* pointer = nullptr;
  if (alignment == 0)
    pointer = std::malloc(size);
  else if (::posix_memalign(&pointer, alignment, size) != 0)
    pointer = nullptr;
  if (pointer == nullptr) std::abort();
  return pointer;
}

// Frees made by the program's new handler belong to the program, and the handler may throw anything. While
// there is a handler, the operator is called without the guard. (Then its mappings are also recorded as the
// program's.)
bool has_new_handler() {
  using Handler = void (*)();
  static constinit Operator<Handler (*)()> get_handler("_ZSt15get_new_handlerv");
  const auto function = get_handler.get();
  return function != nullptr && function() != nullptr;
}

// Calls the nothrow operator, because an exception must not pass while the guard is set. If that returns
// null, calls the throwing one without the guard.
#define HEADROOM_DEFINE_NEW(FUNCTION, NEXT, NEXT_NOTHROW, ARGUMENTS, NOTHROW_ARGUMENTS, ALIGNMENT)       \
  FUNCTION {                                                                                             \
    const auto next = NEXT.get();                                                                        \
    if (__builtin_expect(next == nullptr, 0)) return allocate_or_die(size, ALIGNMENT);                   \
    ThreadLocal& thread = thread_local_state;                                                            \
    if (!should_record_here(thread)) return next ARGUMENTS;                                              \
    void* pointer = has_new_handler() ? next ARGUMENTS : nullptr;                                        \
    if (pointer == nullptr) {                                                                            \
      const OuterGuard guard(thread);                                                                    \
      pointer = NEXT_NOTHROW.get() NOTHROW_ARGUMENTS;                                                    \
    }                                                                                                    \
    if (pointer == nullptr) return next ARGUMENTS;                                                       \
    const OuterGuard guard(thread);                                                                      \
    if (!is_only_counted(thread, size)) record_chosen(thread, pointer, size, caller_of_this_function()); \
    return pointer;                                                                                      \
  }

#define HEADROOM_HOOK_NEW_NOTHROW(SYMBOL, NEXT, PARAMETERS, ARGUMENTS) \
  HEADROOM_HOOK void* SYMBOL PARAMETERS {                              \
    const auto next = NEXT.get();                                      \
    if (__builtin_expect(next == nullptr, 0)) return nullptr;          \
    ThreadLocal& thread = thread_local_state;                          \
    if (!should_record_here(thread)) return next ARGUMENTS;            \
    void* pointer = nullptr;                                           \
    if (has_new_handler()) {                                           \
      pointer = next ARGUMENTS;                                        \
    } else {                                                           \
      const OuterGuard guard(thread);                                  \
      pointer = next ARGUMENTS;                                        \
    }                                                                  \
    const OuterGuard guard(thread);                                    \
    if (pointer != nullptr && !is_only_counted(thread, size))          \
      record_chosen(thread, pointer, size, caller_of_this_function()); \
    return pointer;                                                    \
  }

#define HEADROOM_DEFINE_DELETE(FUNCTION, NEXT, ARGUMENTS)                         \
  FUNCTION {                                                                      \
    const auto next = NEXT.get();                                                 \
    if (__builtin_expect(next == nullptr, 0)) return std::free(pointer);          \
    ThreadLocal& thread = thread_local_state;                                     \
    if (!should_record_here(thread) || pointer == nullptr) return next ARGUMENTS; \
    const OuterGuard guard(thread);                                               \
    finish_release(thread, begin_release(pointer));                               \
    next ARGUMENTS;                                                               \
  }
#define HEADROOM_HOOK_DELETE(SYMBOL, PARAMETERS, ARGUMENTS) \
  namespace {                                               \
  Operator<void(*) PARAMETERS> next_of##SYMBOL(#SYMBOL);    \
  }                                                         \
  HEADROOM_DEFINE_DELETE(HEADROOM_HOOK void SYMBOL PARAMETERS, next_of##SYMBOL, ARGUMENTS)

}  // namespace

namespace headroom::preload {

HEADROOM_DEFINE_NEW([[gnu::noinline]] void* new_slow_path(std::size_t size), plain.next_new, next_new_nothrow,
                    (size), (size, nothrow), 0)

}  // namespace headroom::preload

HEADROOM_DEFINE_NEW(HEADROOM_HOOK void* _Znam(std::size_t size), next_new_array, next_new_array_nothrow,
                    (size), (size, nothrow), 0)
HEADROOM_DEFINE_NEW(HEADROOM_HOOK void* _ZnwmSt11align_val_t(std::size_t size, std::size_t alignment),
                    next_new_aligned, next_new_aligned_nothrow, (size, alignment), (size, alignment, nothrow),
                    alignment)
HEADROOM_DEFINE_NEW(HEADROOM_HOOK void* _ZnamSt11align_val_t(std::size_t size, std::size_t alignment),
                    next_new_array_aligned, next_new_array_aligned_nothrow, (size, alignment),
                    (size, alignment, nothrow), alignment)

HEADROOM_HOOK_NEW_NOTHROW(_ZnwmRKSt9nothrow_t, next_new_nothrow, (std::size_t size, const Nothrow& tag),
                          (size, tag))
HEADROOM_HOOK_NEW_NOTHROW(_ZnamRKSt9nothrow_t, next_new_array_nothrow, (std::size_t size, const Nothrow& tag),
                          (size, tag))
HEADROOM_HOOK_NEW_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, next_new_aligned_nothrow,
                          (std::size_t size, std::size_t alignment, const Nothrow& tag),
                          (size, alignment, tag))
HEADROOM_HOOK_NEW_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, next_new_array_aligned_nothrow,
                          (std::size_t size, std::size_t alignment, const Nothrow& tag),
                          (size, alignment, tag))

HEADROOM_HOOK_DELETE(_ZdaPv, (void* pointer), (pointer))
namespace headroom::preload {

// The standard library's plain delete only calls free. Its sized delete calls the plain delete, which may be
// the program's.
[[gnu::noinline]] void delete_slow_path(void* pointer) {
  const Route route = plain.route.load(std::memory_order_relaxed);
  if (__builtin_expect(route == Route::ours, 1)) return release_slow_path(pointer);
  if (route == Route::standard) return std::free(pointer);
  const auto next = plain.next_delete.get();
  if (__builtin_expect(next == nullptr, 0)) return std::free(pointer);
  ThreadLocal& thread = thread_local_state;
  if (!should_record_here(thread) || pointer == nullptr) return next(pointer);
  const OuterGuard guard(thread);
  finish_release(thread, begin_release(pointer));
  next(pointer);
}

namespace {
HEADROOM_DEFINE_DELETE([[gnu::noinline]] void delete_sized_elsewhere(void* pointer, std::size_t size),
                       plain.next_sized_delete, (pointer, size))
}
[[gnu::noinline]] void delete_sized_slow_path(void* pointer, std::size_t size) {
  if (__builtin_expect(plain.route.load(std::memory_order_relaxed) == Route::ours, 1))
    return release_slow_path(pointer);
  delete_sized_elsewhere(pointer, size);
}

}  // namespace headroom::preload

HEADROOM_HOOK_DELETE(_ZdaPvm, (void* pointer, std::size_t size), (pointer, size))
HEADROOM_HOOK_DELETE(_ZdlPvRKSt9nothrow_t, (void* pointer, const Nothrow& tag), (pointer, tag))
HEADROOM_HOOK_DELETE(_ZdaPvRKSt9nothrow_t, (void* pointer, const Nothrow& tag), (pointer, tag))
HEADROOM_HOOK_DELETE(_ZdlPvSt11align_val_t, (void* pointer, std::size_t alignment), (pointer, alignment))
HEADROOM_HOOK_DELETE(_ZdaPvSt11align_val_t, (void* pointer, std::size_t alignment), (pointer, alignment))
HEADROOM_HOOK_DELETE(_ZdlPvmSt11align_val_t, (void* pointer, std::size_t size, std::size_t alignment),
                     (pointer, size, alignment))
HEADROOM_HOOK_DELETE(_ZdaPvmSt11align_val_t, (void* pointer, std::size_t size, std::size_t alignment),
                     (pointer, size, alignment))
HEADROOM_HOOK_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t,
                     (void* pointer, std::size_t alignment, const Nothrow& tag), (pointer, alignment, tag))
HEADROOM_HOOK_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t,
                     (void* pointer, std::size_t alignment, const Nothrow& tag), (pointer, alignment, tag))
