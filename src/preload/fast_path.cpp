#include "preload/fast_path.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include "preload/memory.h"
#include "preload/process.h"
#include "preload/real_functions.h"

namespace headroom::preload {

// The fast path alone in its page, for any page size. So the page is anonymous memory, which the kernel can
// wipe at fork.
struct FastPathPage {
  char before[64 << 10] = {};
  FastPath path;
  char after[64 << 10] = {};
};
extern "C" {
[[gnu::used, gnu::visibility("hidden")]] constinit FastPathPage headroom_trace_fast_path_page;
}
static_assert(sizeof(FastPathPage) == 2 * 65536 + sizeof(FastPath));
__asm__(
    ".hidden headroom_trace_fast_path\n"
    ".globl headroom_trace_fast_path\n"
    ".set headroom_trace_fast_path, headroom_trace_fast_path_page + 65536");

namespace {

// What a child after fork needs to open its own fast path.
FastPath::Malloc c_library_malloc = nullptr;  // null: malloc or free is not the C library's
FastPath::Free c_library_free = nullptr;
std::ptrdiff_t distance_of_threads = 0;
std::atomic<bool> operators_are_standard{false};

constexpr std::size_t kLargestPage = 64 << 10;  // large blocks are rounded up to this

const void* library_of(const void* address) {
  Dl_info info{};
  return address != nullptr && ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Whether the word before each block can be read and holds its size. All versions of glibc's allocator so far
// keep it there. Where pointers are tagged, that word has another tag than the block.
bool has_chunk_sizes(void* (*allocate)(std::size_t), void (*release)(void*)) {
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

void FastPath::open(Malloc allocate, Free release, std::ptrdiff_t distance) {
  malloc_ = allocate;
  free_ = release;
  samples_ = process.recorded.samples();
  large_bytes_ = process.large_bytes;
  // stored before operators_are_standard is read, see open_fast_path_for_operators()
  for_malloc.store(distance);
}

void FastPath::open_for_operators(std::ptrdiff_t distance) {
  for_operators.store(distance, std::memory_order_release);
}

void FastPath::close() {
  for_malloc.store(0, std::memory_order_relaxed);
  for_operators.store(0, std::memory_order_relaxed);
}

void prepare_fast_path() {
  if (!kHasHostHooks || c_library_malloc != nullptr) return;
  void* const next_malloc = find_next("malloc");
  void* const next_free = find_next("free");
  const void* const c_library = library_of(find_next("gnu_get_libc_version"));
  if (c_library == nullptr || library_of(next_malloc) != c_library || library_of(next_free) != c_library)
    return;
  const auto allocate = reinterpret_cast<FastPath::Malloc>(next_malloc);
  const auto release = reinterpret_cast<FastPath::Free>(next_free);
  if (!has_chunk_sizes(allocate, release)) return;
  const std::size_t page = ::getauxval(AT_PAGESZ);
  wipe_on_fork(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&fast_path) & ~(page - 1)), page);
  distance_of_threads =
      reinterpret_cast<char*>(&thread_local_state) - static_cast<char*>(__builtin_thread_pointer());
  c_library_free = release;
  c_library_malloc = allocate;
}

void open_fast_path() {
  if (c_library_malloc == nullptr || process.large_bytes == 0 || !process.options.host) return;
  process.recorded.always_match(0, 1);
  process.recorded.always_match(reinterpret_cast<std::uint64_t>(bootstrap_arena), kBootstrapBytes);
  fast_path.open(c_library_malloc, c_library_free, distance_of_threads);
  if (operators_are_standard.load()) fast_path.open_for_operators(distance_of_threads);
}

void close_fast_path() { fast_path.close(); }

// Two threads may run this and open_fast_path() at once. Each stores its own flag before it reads the
// other's, so the later one sees both.
void open_fast_path_for_operators() {
  operators_are_standard.store(true);
  if (fast_path.for_malloc.load() != 0) fast_path.open_for_operators(distance_of_threads);
}

[[gnu::noinline, gnu::cold]] void count_failed_allocation() {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  ThreadState* const state = thread.state;
  if (state != nullptr && state->counters != nullptr) state->writer.count_release();
}

}  // namespace headroom::preload
