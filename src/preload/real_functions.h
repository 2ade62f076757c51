// The functions that the hooks wrap: in each case the next definition after ours in the loader's search
// order.
#pragma once

#include <dlfcn.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/memory.h"

#define HEADROOM_HOOK extern "C" __attribute__((visibility("default")))

namespace headroom::preload {

// Whether this library was loaded into a running program (attach.h), after the C library. RTLD_NEXT then
// finds nothing, and calls reach the hooks only because attaching redirects them.
extern const bool kIsAttached;

// The definition that the program would use without this library. Null if there is none.
void* find_next(const char* name);

// The next definition, looked up at first use. Null if there is none.
template <class Function>
class NextFunction {
 public:
  constexpr explicit NextFunction(const char* name) : name_(name) {}
  Function get() {
    void* address = address_.load(std::memory_order_relaxed);
    if (__builtin_expect(address == nullptr, 0)) {
      address = find_next(name_);
      address_.store(address, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function>(address);
  }

 private:
  const char* name_;
  std::atomic<void*> address_{nullptr};
};

// The loader's functions, for the tracer's own calls: those must bypass the hooks, because the program did
// not make them.
extern NextFunction<void* (*)(const char*, int)> next_dlopen;
extern NextFunction<int (*)(void*)> next_dlclose;

// The allocator behind our hooks. All functions are resolved together; `malloc` is stored last.
struct alignas(kCacheLine) RealAllocator {
  std::atomic<void* (*)(std::size_t)> malloc{nullptr};
  void* (*calloc)(std::size_t, std::size_t) = nullptr;
  void* (*realloc)(void*, std::size_t) = nullptr;
  void (*free)(void*) = nullptr;
  int (*posix_memalign)(void**, std::size_t, std::size_t) = nullptr;
  void* (*aligned_alloc)(std::size_t, std::size_t) = nullptr;
  void* (*memalign)(std::size_t, std::size_t) = nullptr;
  void* (*valloc)(std::size_t) = nullptr;
  void* (*pvalloc)(std::size_t) = nullptr;
  void* (*reallocarray)(void*, std::size_t, std::size_t) = nullptr;
  void* allocate(std::size_t size) const { return malloc.load(std::memory_order_relaxed)(size); }
  bool is_resolved() const { return __builtin_expect(malloc.load(std::memory_order_acquire) != nullptr, 1); }
};
extern RealAllocator real;

// Returns false while this thread is inside the lookup, which may allocate: then the caller uses the
// bootstrap arena.
bool resolve_allocator();

// A small arena for the time before the real allocator is known. Its blocks are never released.
void* bootstrap_allocate(std::size_t bytes, std::size_t alignment);
inline constexpr std::size_t kBootstrapBytes = 64 << 10;
extern __attribute__((visibility("hidden"))) char bootstrap_arena[kBootstrapBytes];
// Called at every free.
inline bool is_bootstrap(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(bootstrap_arena) <
         kBootstrapBytes;
}
// The requested size.
std::size_t bootstrap_size(const void* pointer);

}  // namespace headroom::preload
