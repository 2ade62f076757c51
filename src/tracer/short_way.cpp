#include "tracer/short_way.h"

#include <dlfcn.h>

#include "tracer/host_hooks.h"
#include "tracer/process.h"
#include "tracer/real_functions.h"

namespace headroom::tracer {

constinit ShortWay short_way;

namespace {

constexpr std::size_t kLargestPage = 64 << 10;  // that a block of its own is rounded to

const void* library_of(const void* address) {
  Dl_info info{};
  return address != nullptr && ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Whether the word before each block tells its size, as in all versions of the C library's allocator so far;
// and whether it may be read: where pointers are tagged it is tagged otherwise than the block.
bool tells_chunk_sizes(void* (*allocate)(std::size_t), void (*release)(void*)) {
  constexpr std::uint64_t kTag = std::uint64_t{0xff} << 56;
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{1} << 20}) {
    void* const block = allocate(size);
    if (block == nullptr || (reinterpret_cast<std::uint64_t>(block) & kTag) != 0) return false;
    const std::size_t chunk = chunk_size(block);
    const bool is_plausible = chunk >= size + sizeof(std::size_t) && chunk < size + 2 * kLargestPage;
    release(block);
    if (!is_plausible) return false;
  }
  return true;
}

}  // namespace

void prepare_short_way() {
  if (!kHasHostHooks || short_way.malloc != nullptr) return;
  void* const next_malloc = ::dlsym(RTLD_NEXT, "malloc");
  void* const next_free = ::dlsym(RTLD_NEXT, "free");
  const void* const c_library = library_of(::dlsym(RTLD_NEXT, "gnu_get_libc_version"));
  if (c_library == nullptr || library_of(next_malloc) != c_library || library_of(next_free) != c_library)
    return;
  const auto allocate = reinterpret_cast<void* (*)(std::size_t)>(next_malloc);
  const auto release = reinterpret_cast<void (*)(void*)>(next_free);
  if (!tells_chunk_sizes(allocate, release)) return;
  short_way.distance =
      reinterpret_cast<char*>(&thread_local_state) - static_cast<char*>(__builtin_thread_pointer());
  short_way.free = release;
  short_way.malloc = allocate;
}

void open_short_way() {
  if (short_way.malloc == nullptr || process.large_bytes == 0 || !process.options.host) return;
  process.recorded.always_ask(0, 1);
  process.recorded.always_ask(reinterpret_cast<std::uint64_t>(bootstrap_arena), kBootstrapBytes);
  short_way.large_bytes = process.large_bytes;
  short_way.asks_first = process.recorded.samples();
  short_way.for_malloc.store(short_way.distance);  // before the load: open_short_way_for_operators()
  if (short_way.has_operators.load())
    short_way.for_operators.store(short_way.distance, std::memory_order_release);
}

void close_short_way() {
  short_way.for_malloc.store(0, std::memory_order_relaxed);
  short_way.for_operators.store(0, std::memory_order_relaxed);
}

// Two threads may come here at once, one of which opens the recording: whoever is the later finds what the
// other has stored.
void open_short_way_for_operators() {
  short_way.has_operators.store(true);
  if (short_way.for_malloc.load() != 0)
    short_way.for_operators.store(short_way.distance, std::memory_order_release);
}

[[gnu::noinline, gnu::cold]] void count_failed_allocation() {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  ThreadState* const state = thread.state;
  if (state != nullptr && state->counters != nullptr) state->writer.count_release();
}

}  // namespace headroom::tracer
