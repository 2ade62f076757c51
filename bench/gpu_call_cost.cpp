// What a call of the CUDA driver takes: cuMemAlloc and cuMemFree of some sizes, a kernel launch, and the
// calls beside them that the tracer hooks. Plain functions of libcuda by dlsym, no toolkit. Prints
// nanoseconds, the median of rounds, as JSON.
//
//   gpu_call_cost [ROUNDS [CALLS]]
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Result = int;
void* library = nullptr;

template <class Function>
Function find(const char* name) {
  void* function = dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "the driver has no %s\n", name);
    std::exit(2);
  }
  return reinterpret_cast<Function>(function);
}

void check(Result result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: error %d\n", what, result);
  std::exit(2);
}

double now_ns() { return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count()); }

template <class Call>
double median_ns(int rounds, int calls, const Call& call) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const double start = now_ns();
    for (int i = 0; i < calls; ++i) call(i);
    times.push_back((now_ns() - start) / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// An empty kernel.
const char kKernel[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\nret;\n}\n";

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 21,
            calls = count > 2 ? std::atoi(arguments[2]) : 500;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "no driver: %s\n", dlerror());
    return 2;
  }
  void *context = nullptr, *module = nullptr, *kernel = nullptr;
  check(find<Result (*)(unsigned)>("cuInit")(0), "cuInit");
  check(find<Result (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0), "context");
  check(find<Result (*)(void*)>("cuCtxSetCurrent")(context), "current");
  check(find<Result (*)(void**, const void*)>("cuModuleLoadData")(&module, kKernel), "module");
  check(find<Result (*)(void**, void*, const char*)>("cuModuleGetFunction")(&kernel, module, "empty"),
        "kernel");
  const auto allocate = find<Result (*)(std::uint64_t*, std::size_t)>("cuMemAlloc_v2");
  const auto release = find<Result (*)(std::uint64_t)>("cuMemFree_v2");
  const auto allocate_async = find<Result (*)(std::uint64_t*, std::size_t, void*)>("cuMemAllocAsync");
  const auto release_async = find<Result (*)(std::uint64_t, void*)>("cuMemFreeAsync");
  const auto synchronize = find<Result (*)()>("cuCtxSynchronize");
  const auto info = find<Result (*)(std::size_t*, std::size_t*)>("cuMemGetInfo_v2");
  const auto launch = find<Result (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, void*, void**, void**)>("cuLaunchKernel");
  std::vector<std::uint64_t> pointers(static_cast<std::size_t>(calls));
  const auto pair_of = [&](std::size_t bytes) {
    std::uint64_t pointer = 0;
    check(allocate(&pointer, bytes), "cuMemAlloc");
    check(release(pointer), "cuMemFree");
  };
  std::printf("{\"alloc_free_512B_ns\": %.1f", median_ns(rounds, calls, [&](int) { pair_of(512); }));
  std::printf(", \"alloc_free_2MiB_ns\": %.1f", median_ns(rounds, calls, [&](int) { pair_of(2 << 20); }));
  std::printf(", \"alloc_free_64MiB_ns\": %.1f",
              median_ns(rounds, calls / 10 + 1, [&](int) { pair_of(64 << 20); }));
  std::printf(", \"alloc_free_async_64KiB_ns\": %.1f", median_ns(rounds, calls, [&](int) {
                std::uint64_t pointer = 0;
                check(allocate_async(&pointer, 64 << 10, nullptr), "cuMemAllocAsync");
                check(release_async(pointer, nullptr), "cuMemFreeAsync");
              }));
  check(synchronize(), "synchronize");
  std::printf(", \"launch_ns\": %.1f", median_ns(rounds, calls, [&](int i) {
                check(launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), "launch");
                if (i % 100 == 99) synchronize();
              }));
  std::printf(", \"mem_get_info_ns\": %.1f}\n", median_ns(rounds, calls, [&](int) {
                std::size_t free = 0, total = 0;
                check(info(&free, &total), "cuMemGetInfo");
              }));
  return 0;
}
