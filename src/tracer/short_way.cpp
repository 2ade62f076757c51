#include "tracer/short_way.h"

#include <dlfcn.h>

#include "tracer/host_hooks.h"
#include "tracer/process.h"

namespace headroom::tracer {

constinit ShortWay short_way;

namespace {

const void* library_of(const void* address) {
  Dl_info info{};
  return address != nullptr && ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

void prepare_short_way() {
  if (!kHasHostHooks || short_way.malloc != nullptr) return;
  void* const next_malloc = ::dlsym(RTLD_NEXT, "malloc");
  void* const next_free = ::dlsym(RTLD_NEXT, "free");
  const void* const c_library = library_of(::dlsym(RTLD_NEXT, "gnu_get_libc_version"));
  if (c_library == nullptr || library_of(next_malloc) != c_library || library_of(next_free) != c_library)
    return;
  short_way.thread_offset =
      reinterpret_cast<char*>(&thread_local_state) - static_cast<char*>(__builtin_thread_pointer());
  short_way.free = reinterpret_cast<void (*)(void*)>(next_free);
  short_way.malloc = reinterpret_cast<void* (*)(std::size_t)>(next_malloc);
}

void open_short_way() {
  if (short_way.malloc == nullptr || process.large_bytes == 0 || !process.options.host) return;
  short_way.large_bytes = process.large_bytes;
  short_way.recorded = process.recorded.filter();
  short_way.is_open.store(1, std::memory_order_release);
}

void close_short_way() { short_way.is_open.store(0, std::memory_order_relaxed); }

[[gnu::noinline, gnu::cold]] void count_failed_allocation() {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  ThreadState* const state = thread.state;
  if (state != nullptr && state->counts_small != 0) state->writer.count_release();
}

}  // namespace headroom::tracer
