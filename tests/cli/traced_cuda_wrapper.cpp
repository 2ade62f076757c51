// A library that is linked with the driver, for traced_cuda_lookup.cpp.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(std::uint64_t*, std::size_t);

__attribute__((visibility("default"))) int wrapper_start() {
  void* context = nullptr;
  const int result = cuInit(0);
  return result != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 ? 1 : cuCtxSetCurrent(context);
}
__attribute__((visibility("default"))) int wrapper_allocate(std::uint64_t* pointer, std::size_t bytes) {
  return cuMemAlloc_v2(pointer, bytes);
}
// Like a library that knows the driver only from its own lookup scope. cuDriverGetVersion is not hooked;
// cuFakeAllocation is another name of cuMemAlloc_v2.
__attribute__((visibility("default"))) int wrapper_allocate_default(std::uint64_t* pointer,
                                                                    std::size_t bytes) {
  static int calls = 0;
  const auto allocate = reinterpret_cast<int (*)(std::uint64_t*, std::size_t)>(
      dlsym(RTLD_DEFAULT, ++calls % 2 == 0 ? "cuMemAlloc_v2" : "cuFakeAllocation"));
  if (allocate == nullptr || dlsym(RTLD_DEFAULT, "cuDriverGetVersion") == nullptr) return 1;
  return allocate(pointer, bytes);
}
// Like a library that itself intercepts the driver.
__attribute__((visibility("default"))) int wrapper_allocate_next(std::uint64_t* pointer, std::size_t bytes) {
  static const auto next =
      reinterpret_cast<int (*)(std::uint64_t*, std::size_t)>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  return next == nullptr ? 1 : next(pointer, bytes);
}
}
