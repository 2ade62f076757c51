#include "preload/real_functions.h"

#include <cstdint>

#include "preload/loaded_objects.h"

namespace headroom::preload {

constinit RealAllocator real;
constinit NextFunction<void* (*)(const char*, int)> next_dlopen("dlopen");
constinit NextFunction<int (*)(void*)> next_dlclose("dlclose");

void* find_next(const char* name) { return kIsAttached ? first_definition(name) : ::dlsym(RTLD_NEXT, name); }

namespace {

constinit thread_local bool is_resolving __attribute__((tls_model("initial-exec"))) = false;

template <class Function>
void resolve_next(Function& function, const char* name) {
  function = reinterpret_cast<Function>(find_next(name));
}

std::atomic<std::size_t> arena_used{0};

}  // namespace

alignas(64) char bootstrap_arena[kBootstrapBytes];

bool resolve_allocator() {
  if (real.is_resolved()) return true;
  if (is_resolving) return false;
  is_resolving = true;
  resolve_next(real.calloc, "calloc");
  resolve_next(real.realloc, "realloc");
  resolve_next(real.free, "free");
  resolve_next(real.posix_memalign, "posix_memalign");
  resolve_next(real.aligned_alloc, "aligned_alloc");
  resolve_next(real.memalign, "memalign");
  resolve_next(real.valloc, "valloc");
  resolve_next(real.pvalloc, "pvalloc");
  resolve_next(real.reallocarray, "reallocarray");
  void* (*next_malloc)(std::size_t) = nullptr;
  resolve_next(next_malloc, "malloc");
  real.malloc.store(next_malloc, std::memory_order_release);
  is_resolving = false;
  return next_malloc != nullptr;
}

// The word before each block holds its size.
void* bootstrap_allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment < 16) alignment = 16;
  if (bytes > kBootstrapBytes || alignment > 4096) return nullptr;
  const std::size_t span = bytes + alignment + 16;
  const std::size_t at = arena_used.fetch_add(span);
  if (at + span > kBootstrapBytes) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(bootstrap_arena + at) + sizeof(std::size_t);
  auto* piece = reinterpret_cast<char*>((begin + alignment - 1) & ~(alignment - 1));
  *reinterpret_cast<std::size_t*>(piece - sizeof(std::size_t)) = bytes;
  return piece;
}

std::size_t bootstrap_size(const void* pointer) {
  return *reinterpret_cast<const std::size_t*>(static_cast<const char*>(pointer) - sizeof(std::size_t));
}

}  // namespace headroom::preload
