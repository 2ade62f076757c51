// A library that looks up the driver's functions in its constructor, before the constructor of a library
// preloaded earlier runs; compute-sanitizer does the same. Allocates 1 MiB of GPU memory with the functions
// it found.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

[[gnu::constructor]] static void at_once() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return;
  const auto find = [&](const char* name) { return dlsym(library, name); };
  void* context = nullptr;
  std::uint64_t pointer = 0;
  reinterpret_cast<int (*)(unsigned)>(find("cuInit"))(0);
  reinterpret_cast<int (*)(void**, int)>(find("cuDevicePrimaryCtxRetain"))(&context, 0);
  reinterpret_cast<int (*)(void*)>(find("cuCtxSetCurrent"))(context);
  const int result = reinterpret_cast<int (*)(std::uint64_t*, std::size_t)>(find("cuMemAlloc_v2"))(
      &pointer, std::size_t{1} << 20);
  std::fprintf(stderr, "early: %d\n", result);
}
