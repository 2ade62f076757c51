// Allocates 1000 blocks with jemalloc's mallocx and frees every other one with free. jemalloc is preloaded.
#include <dlfcn.h>

#include <cstdlib>

int main() {
  using Mallocx = void* (*)(std::size_t, int);
  const auto mallocx = reinterpret_cast<Mallocx>(dlsym(RTLD_DEFAULT, "mallocx"));
  if (mallocx == nullptr) return 2;
  for (int i = 0; i < 1000; ++i) {
    void* const block = mallocx(10'000, 0);
    if (i % 2 == 0) std::free(block);
  }
}
