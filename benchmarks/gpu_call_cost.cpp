// Measures the cost of CUDA driver calls: cuMemAlloc and cuMemFree of some sizes, a kernel launch, and the
// other calls that the tracer hooks. Uses functions of libcuda from dlsym, without a toolkit. Prints
// nanoseconds as JSON: the median of rounds.
//
//   gpu_call_cost [ROUNDS [CALLS]]
//   gpu_call_cost added [PAIRS]
//
// `added` is for a traced program: it alternates between calls through the hooks and calls to the driver's
// own functions in one process. The cost of a call differs more between two processes than a hook adds. Its
// output also names the library that contains the launch functions.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "preload/loaded_objects.h"
#include "types/cuda_driver_types.h"

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

// The driver's own function, bypassing hooks on dlsym.
std::uint64_t own_address(const char* name) {
  struct Search {
    const char* name;
    std::uint64_t found;
  } search{name, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* data) {
        if (std::strstr(module->dlpi_name, "libcuda.so") == nullptr) return 0;
        auto& wanted = *static_cast<Search*>(data);
        wanted.found = headroom::preload::address_of_export(*module, wanted.name);
        return wanted.found != 0 ? 1 : 0;
      },
      &search);
  if (search.found == 0) {
    std::fprintf(stderr, "the driver exports no %s\n", name);
    std::exit(2);
  }
  return search.found;
}

struct Times {
  std::vector<double> own, hooked;
};
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
// The median of the cost that the hook adds between a call and its neighbour, with a distribution-free 95 %
// interval (order statistics of a sign test, in normal approximation).
void print_added(const char* name, const Times& times, const char* before) {
  std::vector<double> added;
  for (std::size_t i = 0; i < times.own.size(); ++i) added.push_back(times.hooked[i] - times.own[i]);
  std::sort(added.begin(), added.end());
  const auto n = static_cast<double>(added.size());
  const auto below = static_cast<std::size_t>(std::max(0.0, n / 2 - 0.98 * std::sqrt(n)));
  std::printf(
      "%s\"%s\": {\"own_ns\": %.0f, \"hooked_ns\": %.0f, \"added_ns\": %.0f, \"low_ns\": %.0f, "
      "\"high_ns\": %.0f, \"pairs\": %zu}",
      before, name, median(times.own), median(times.hooked), added[added.size() / 2], added[below],
      added[added.size() - 1 - below], added.size());
}

// Times one allocating and one freeing call, `depth` stack frames deeper.
template <class Allocate, class Release>
__attribute__((noinline)) void time_calls(int depth, const Allocate& allocate, const Release& release,
                                          double& allocating, double& releasing) {
  if (depth > 0) {
    time_calls(depth - 1, allocate, release, allocating, releasing);
    __asm__ volatile("" ::: "memory");  // prevents a tail call
    return;
  }
  const double start = now_ns();
  const std::uint64_t pointer = allocate();
  const double between = now_ns();
  release(pointer);
  const double end = now_ns();
  allocating = between - start;
  releasing = end - between;
}

using AllocateCall = Result (*)(std::uint64_t*, std::size_t);
using ReleaseCall = Result (*)(std::uint64_t);
using AllocateAsyncCall = Result (*)(std::uint64_t*, std::size_t, void*);
using ReleaseAsyncCall = Result (*)(std::uint64_t, void*);
using MapCall = Result (*)(std::uint64_t, std::size_t, std::size_t, std::uint64_t, unsigned long long);
using UnmapCall = Result (*)(std::uint64_t, std::size_t);

headroom::cuda::AllocationProperties device_memory() {
  headroom::cuda::AllocationProperties properties{};
  properties.type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  properties.location = {headroom::cuda::kLocationDevice, 0};
  return properties;
}

// `own` and `hooked` are pairs of functions: allocate() and release(pointer).
template <class Own, class Hooked>
void compare(const std::string& name, int pairs, int depth, const Own& own, const Hooked& hooked) {
  Times allocating, releasing;
  const auto one = [&](const auto& side, std::vector<double>& first, std::vector<double>& second) {
    double a = 0, b = 0;
    time_calls(depth, side.allocate, side.release, a, b);
    first.push_back(a);
    second.push_back(b);
  };
  for (int i = -pairs / 10; i < pairs; ++i) {
    if (i == 0) allocating = releasing = {};
    if (i % 2 == 0) one(own, allocating.own, releasing.own);
    one(hooked, allocating.hooked, releasing.hooked);
    if (i % 2 != 0) one(own, allocating.own, releasing.own);
  }
  print_added(("allocate " + name).c_str(), allocating, ",\n ");
  print_added(("release " + name).c_str(), releasing, ",\n ");
}

template <class Allocate, class Release>
struct Side {
  Allocate allocate;
  Release release;
};
template <class Allocate, class Release>
Side(Allocate, Release) -> Side<Allocate, Release>;

std::string library_of(const void* function) {
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}

void print_launches() {
  const auto get = find<Result (*)(const char*, void**, int, std::uint64_t, int*)>("cuGetProcAddress_v2");
  std::printf("{\"launches\": {");
  const char* before = "";
  for (const char* name : {"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch",
                           "cuLaunchHostFunc", "cuMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async"}) {
    std::string asked = name;
    if (asked.size() > 3 && asked.compare(asked.size() - 3, 3, "_v2") == 0) asked.resize(asked.size() - 3);
    void *of_default = nullptr, *of_thread = nullptr;
    int status = 0;
    get(asked.c_str(), &of_default, 12000, 0, &status);
    get(asked.c_str(), &of_thread, 12000, 2, &status);
    std::printf("%s\"%s\": [\"%s\", \"%s\", \"%s\"]", before, name, library_of(dlsym(library, name)).c_str(),
                library_of(of_default).c_str(), library_of(of_thread).c_str());
    before = ", ";
  }
  std::printf("}, \"cuMemAlloc_v2\": \"%s\"", library_of(dlsym(library, "cuMemAlloc_v2")).c_str());
}

// Calls that programs make rarely: by name, with the request that `take(allocate)` makes.
template <class Allocate, class Release, class Take>
void compare_seldom(const char* name, int pairs, const char* allocate, const char* release,
                    const Take& take) {
  const auto side = [&](Allocate allocating, Release releasing) {
    return Side{[=] { return take(allocating); },
                [=](std::uint64_t memory) { check(releasing(memory), release); }};
  };
  compare(name, pairs, 0,
          side(reinterpret_cast<Allocate>(own_address(allocate)),
               reinterpret_cast<Release>(own_address(release))),
          side(find<Allocate>(allocate), find<Release>(release)));
}

void compare_all_seldom(int pairs) {
  using headroom::cuda::Array3dDescriptor;
  using headroom::cuda::ArrayDescriptor;
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  constexpr int kFloats = 0x20;  // CU_AD_FORMAT_FLOAT
  using Pitch = Result (*)(std::uint64_t*, std::size_t*, std::size_t, std::size_t, unsigned);
  compare_seldom<Pitch, ReleaseCall>("cuMemAllocPitch 2 MiB", pairs, "cuMemAllocPitch_v2", "cuMemFree_v2",
                                     [](Pitch allocate) {
                                       std::uint64_t pointer = 0;
                                       std::size_t pitch = 0;
                                       check(allocate(&pointer, &pitch, 2048, 1024, 4), "cuMemAllocPitch");
                                       return pointer;
                                     });
  using Managed = Result (*)(std::uint64_t*, std::size_t, unsigned);
  compare_seldom<Managed, ReleaseCall>("cuMemAllocManaged 2 MiB", pairs, "cuMemAllocManaged", "cuMemFree_v2",
                                       [](Managed allocate) {
                                         std::uint64_t pointer = 0;
                                         check(allocate(&pointer, kBytes, 1), "cuMemAllocManaged");
                                         return pointer;
                                       });
  using Pinned = Result (*)(std::uint64_t*, std::size_t, unsigned);
  compare_seldom<Pinned, ReleaseCall>("cuMemHostAlloc 2 MiB", 4 * pairs, "cuMemHostAlloc", "cuMemFreeHost",
                                      [](Pinned allocate) {
                                        std::uint64_t pointer = 0;
                                        check(allocate(&pointer, kBytes, 0), "cuMemHostAlloc");
                                        return pointer;
                                      });
  using Create = Result (*)(std::uint64_t*, std::size_t, const void*, unsigned long long);
  compare_seldom<Create, ReleaseCall>(
      "cuMemCreate 2 MiB", pairs, "cuMemCreate", "cuMemRelease", [](Create create) {
        const headroom::cuda::AllocationProperties properties = device_memory();
        std::uint64_t handle = 0;
        check(create(&handle, kBytes, &properties, 0), "cuMemCreate");
        return handle;
      });
  using Array = Result (*)(std::uint64_t*, const ArrayDescriptor*);
  compare_seldom<Array, ReleaseCall>("cuArrayCreate 4 MiB", pairs, "cuArrayCreate_v2", "cuArrayDestroy",
                                     [](Array create) {
                                       const ArrayDescriptor shape{1024, 1024, kFloats, 1};
                                       std::uint64_t array = 0;
                                       check(create(&array, &shape), "cuArrayCreate");
                                       return array;
                                     });
  using Array3d = Result (*)(std::uint64_t*, const Array3dDescriptor*);
  compare_seldom<Array3d, ReleaseCall>("cuArray3DCreate 4 MiB", pairs, "cuArray3DCreate_v2", "cuArrayDestroy",
                                       [](Array3d create) {
                                         const Array3dDescriptor shape{128, 128, 64, kFloats, 1, 0};
                                         std::uint64_t array = 0;
                                         check(create(&array, &shape), "cuArray3DCreate");
                                         return array;
                                       });
  using Mipmap = Result (*)(std::uint64_t*, const Array3dDescriptor*, unsigned);
  compare_seldom<Mipmap, ReleaseCall>("cuMipmappedArrayCreate 5 MiB", pairs, "cuMipmappedArrayCreate",
                                      "cuMipmappedArrayDestroy", [](Mipmap create) {
                                        const Array3dDescriptor shape{1024, 1024, 0, kFloats, 1, 0};
                                        std::uint64_t mipmap = 0;
                                        check(create(&mipmap, &shape, 4), "cuMipmappedArrayCreate");
                                        return mipmap;
                                      });
}

int print_all_added(int pairs) {
  print_launches();
  const auto plain = [&](auto allocate, auto release, std::size_t bytes) {
    return Side{[=] {
                  std::uint64_t pointer = 0;
                  check(allocate(&pointer, bytes), "cuMemAlloc");
                  return pointer;
                },
                [=](std::uint64_t pointer) { check(release(pointer), "cuMemFree"); }};
  };
  const auto in_order = [&](auto allocate, auto release, std::size_t bytes) {
    return Side{[=] {
                  std::uint64_t pointer = 0;
                  check(allocate(&pointer, bytes, nullptr), "cuMemAllocAsync");
                  return pointer;
                },
                [=](std::uint64_t pointer) { check(release(pointer, nullptr), "cuMemFreeAsync"); }};
  };
  const auto own = [](auto call, const char* name) {
    return reinterpret_cast<decltype(call)>(own_address(name));
  };
  const auto allocate = find<AllocateCall>("cuMemAlloc_v2");
  const auto release = find<ReleaseCall>("cuMemFree_v2");
  const auto allocate_async = find<AllocateAsyncCall>("cuMemAllocAsync");
  const auto release_async = find<ReleaseAsyncCall>("cuMemFreeAsync");
  const auto own_allocate = own(allocate, "cuMemAlloc_v2");
  const auto own_release = own(release, "cuMemFree_v2");
  const auto own_allocate_async = own(allocate_async, "cuMemAllocAsync");
  const auto own_release_async = own(release_async, "cuMemFreeAsync");
  // Memory by handle at fixed addresses, as in PyTorch's expandable segments. Times one map and one unmap.
  const auto map = find<MapCall>("cuMemMap");
  const auto unmap = find<UnmapCall>("cuMemUnmap");
  const auto own_map = own(map, "cuMemMap");
  const auto own_unmap = own(unmap, "cuMemUnmap");
  constexpr std::size_t kSegment = std::size_t{2} << 20;
  std::uint64_t handle = 0, addresses = 0;
  const headroom::cuda::AllocationProperties properties = device_memory();
  check(find<Result (*)(std::uint64_t*, std::size_t, const void*, unsigned long long)>("cuMemCreate")(
            &handle, kSegment, &properties, 0),
        "cuMemCreate");
  check(find<Result (*)(std::uint64_t*, std::size_t, std::size_t, std::uint64_t, unsigned long long)>(
            "cuMemAddressReserve")(&addresses, kSegment, 0, 0, 0),
        "cuMemAddressReserve");
  const auto mapped = [&](auto map_it, auto unmap_it) {
    return Side{[=] {
                  check(map_it(addresses, kSegment, 0, handle, 0), "cuMemMap");
                  return addresses;
                },
                [=](std::uint64_t at) { check(unmap_it(at, kSegment), "cuMemUnmap"); }};
  };
  // Blocks that stay allocated, as in a real program: the pool is in use, and the ledger is not empty.
  for (int i = 0; i < 1000; ++i) {
    std::uint64_t pointer = 0;
    check(allocate(&pointer, 4096), "cuMemAlloc");
    check(allocate_async(&pointer, 64 << 10, nullptr), "cuMemAllocAsync");
  }
  for (const int depth : {0, 30}) {
    const std::string deep = depth == 0 ? "" : ", 30 frames deeper";
    for (const auto& [name, bytes] : {std::pair{"512 B", std::size_t{512}}, {"2 MiB", std::size_t{2} << 20}})
      compare("cuMemAlloc " + (name + deep), pairs, depth, plain(own_allocate, own_release, bytes),
              plain(allocate, release, bytes));
    compare("cuMemAllocAsync 64 KiB" + deep, pairs, depth,
            in_order(own_allocate_async, own_release_async, 64 << 10),
            in_order(allocate_async, release_async, 64 << 10));
    compare("cuMemMap 2 MiB" + deep, pairs, depth, mapped(own_map, own_unmap), mapped(map, unmap));
  }
  compare_all_seldom(pairs / 4);
  std::printf("}\n");
  return 0;
}

// An empty kernel.
const char kKernel[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\nret;\n}\n";

}  // namespace

int main(int count, char** arguments) {
  const bool added = count > 1 && std::strcmp(arguments[1], "added") == 0;
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
  if (added) return print_all_added(count > 2 ? std::atoi(arguments[2]) : 4000);
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
