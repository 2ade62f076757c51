// Preloaded into `headroom bench --task vos`: leaks memory in chosen calls of malloc_trim(), which the worker
// makes at each cleanup. HEADROOM_TEST_LEAK="FIRST STEP": calls FIRST, FIRST + STEP, … each leak 4 MiB.
#include <dlfcn.h>
#include <malloc.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int malloc_trim(std::size_t pad) noexcept {
  static long calls = 0;
  ++calls;
  long first = 0, step = 0;
  const char* text = std::getenv("HEADROOM_TEST_LEAK");
  const bool leaks = text != nullptr && std::sscanf(text, "%ld %ld", &first, &step) == 2 && step > 0;
  if (leaks && calls >= first && (calls - first) % step == 0) {
    constexpr std::size_t kSize = std::size_t{4} << 20;
    static void* volatile kept;  // only the last one can still be freed
    void* memory = std::malloc(kSize);
    if (memory != nullptr) std::memset(memory, 1, kSize);
    kept = memory;
  }
  using Trim = int (*)(std::size_t);
  const auto real = reinterpret_cast<Trim>(::dlsym(RTLD_NEXT, "malloc_trim"));
  return real != nullptr ? real(pad) : 0;
}
