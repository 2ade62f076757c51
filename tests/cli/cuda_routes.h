// The ways to take GPU memory by the CUDA driver, for guest programs: each route takes until it is refused,
// frees, and takes again. Functions are found as `way` says; see traced_cuda.cpp.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tracer/driver_types.h"

namespace cuda_program {

using namespace headroom::tracer::driver;

inline void* library = nullptr;
inline std::string way;
// By what the library's functions are looked up: a program that has the hooks in itself puts them in between.
inline void* (*symbol_of)(void* from, const char* name) = [](void* from, const char* name) {
  return dlsym(from, name);
};

[[noreturn]] inline void give_up(const char* what, const char* name, int code) {
  std::fprintf(stderr, "%s: %s (%d)\n", what, name, code);
  std::exit(2);
}

// `exported` is the name that the driver exports, `name` and `version` what cuGetProcAddress is asked for.
template <class Function>
Function find(const char* exported, const char* name, int version) {
  void* function = nullptr;
  if (way == "dlsym" || way == "linked") {
    function = symbol_of(way == "linked" ? RTLD_DEFAULT : library, exported);
  } else if (way == "first") {
    const auto get = reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t)>(
        symbol_of(library, "cuGetProcAddress"));
    if (get(name, &function, version, 0) != kSuccess) function = nullptr;
  } else {
    const auto get = reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t, int*)>(
        symbol_of(library, "cuGetProcAddress_v2"));
    int status = 0;
    if (get(name, &function, version, way == "ptsz" ? 2 : 0, &status) != kSuccess) function = nullptr;
  }
  if (function == nullptr) give_up("the driver has no", exported, 0);
  return reinterpret_cast<Function>(function);
}
#define FIND(type, exported, name, version) find<Result(*) type>(exported, name, version)

inline void check(Result result, const char* what) {
  if (result != kSuccess) give_up("failed", what, result);
}

inline void start_context() {
  check(FIND((unsigned), "cuInit", "cuInit", 2000)(0), "cuInit");
  Opaque context = nullptr;
  check(FIND((Opaque*, Device), "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000)(&context, 0),
        "retain");
  check(FIND((Opaque), "cuCtxSetCurrent", "cuCtxSetCurrent", 4000)(context), "set current");
}

struct Outcome {
  std::uint64_t bytes = 0, count = 0;
  Result end = kSuccess;
};

// One kind of allocation: `take(bytes)` gives what it costs in `cost`, `free_all()` gives everything back.
struct Route {
  virtual ~Route() = default;
  virtual Result take(std::uint64_t step, std::uint64_t& cost) = 0;
  virtual void free_all() = 0;
  virtual bool is_exact() const { return true; }  // a step costs what was asked for
  virtual std::uint64_t granule() const {
    return 0;
  }  // that may be left besides, because the driver takes such
};

struct Pointers : Route {
  std::vector<Pointer> all;
  void free_all() override {
    const auto free = FIND((Pointer), "cuMemFree_v2", "cuMemFree", 3020);
    for (const Pointer pointer : all) check(free(pointer), "cuMemFree");
    all.clear();
  }
  Result keep(Result result, const Pointer& pointer) {  // by reference: read after the call
    if (result == kSuccess) all.push_back(pointer);
    return result;
  }
};
struct Plain : Pointers {
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    cost = step;
    return keep(FIND((Pointer*, std::size_t), "cuMemAlloc_v2", "cuMemAlloc", 3020)(&pointer, step), pointer);
  }
};
struct Managed : Pointers {
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    cost = step;
    return keep(FIND((Pointer*, std::size_t, unsigned), "cuMemAllocManaged", "cuMemAllocManaged", 6000)(
                    &pointer, step, 1),
                pointer);
  }
};
struct Pitch : Pointers {
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    std::size_t pitch = 0;
    const std::size_t width = 1000, height = step / 1024;
    const Result result =
        FIND((Pointer*, std::size_t*, std::size_t, std::size_t, unsigned), "cuMemAllocPitch_v2",
             "cuMemAllocPitch", 3020)(&pointer, &pitch, width, height, 4);
    cost = pitch * height;
    return keep(result, pointer);
  }
  bool is_exact() const override { return false; }
};
constexpr std::uint64_t kPoolGranule = 32 << 20;  // as seen on an H200

inline Result make_pool(Opaque& pool, Device device, bool is_managed = false) {
  PoolProperties properties{};
  properties.type = is_managed ? kManagedMemory : 1;
  if (!is_managed) properties.location = {kLocationDevice, device};
  return FIND((Opaque*, const PoolProperties*), "cuMemPoolCreate", "cuMemPoolCreate", 11020)(&pool,
                                                                                             &properties);
}
inline void destroy_pool(Opaque pool) {
  check(FIND((Opaque), "cuMemPoolDestroy", "cuMemPoolDestroy", 11020)(pool), "pool destroy");
}
inline Result take_from_pool(Opaque pool, std::uint64_t bytes, Pointer& pointer) {
  return FIND((Pointer*, std::size_t, Opaque, Opaque), "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync",
              11020)(&pointer, bytes, pool, nullptr);
}

struct Async : Pointers {
  Opaque pool = nullptr;
  bool of_own_pool = false, is_managed = false;
  Device device = 0;  // that the pool is of: of another than the current one it is named
  explicit Async(bool own, Device of = 0, bool managed = false)
      : of_own_pool(own), is_managed(managed), device(of) {}
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    cost = step;
    if (of_own_pool && pool == nullptr) check(make_pool(pool, device, is_managed), "pool");
    if (!of_own_pool && device != 0 && pool == nullptr)
      check(FIND((Opaque*, Device), "cuDeviceGetDefaultMemPool", "cuDeviceGetDefaultMemPool", 11020)(&pool,
                                                                                                     device),
            "default pool");
    if (pool != nullptr) return keep(take_from_pool(pool, step, pointer), pointer);
    return keep(FIND((Pointer*, std::size_t, Opaque), "cuMemAllocAsync", "cuMemAllocAsync", 11020)(
                    &pointer, step, nullptr),
                pointer);
  }
  void free_all() override {
    const auto free = FIND((Pointer, Opaque), "cuMemFreeAsync", "cuMemFreeAsync", 11020);
    for (const Pointer pointer : all) check(free(pointer, nullptr), "cuMemFreeAsync");
    all.clear();
    // What is freed in the order of a stream stays with the pool until it is told to give it back.
    check(FIND((), "cuCtxSynchronize", "cuCtxSynchronize", 2000)(), "synchronize");
    Opaque of_device = nullptr;
    check(FIND((Opaque*, Device), "cuDeviceGetMemPool", "cuDeviceGetMemPool", 11020)(&of_device, device),
          "pool of device");
    check(FIND((Opaque, std::size_t), "cuMemPoolTrimTo", "cuMemPoolTrimTo", 11020)(of_device, 0), "trim");
    if (of_own_pool && pool != nullptr) destroy_pool(pool);
    pool = nullptr;
  }
  bool is_exact() const override { return false; }
  std::uint64_t granule() const override { return kPoolGranule; }
};
// In a stream of a context that is not current, nor any.
struct AsyncElsewhere : Async {
  Opaque stream = nullptr;
  AsyncElsewhere() : Async(false) {}
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    const auto set = FIND((Opaque), "cuCtxSetCurrent", "cuCtxSetCurrent", 4000);
    Opaque context = nullptr;
    check(FIND((Opaque*), "cuCtxGetCurrent", "cuCtxGetCurrent", 4000)(&context), "context");
    if (stream == nullptr)
      check(FIND((Opaque*, unsigned), "cuStreamCreate", "cuStreamCreate", 2000)(&stream, 1), "stream");
    const auto allocate = FIND((Pointer*, std::size_t, Opaque), "cuMemAllocAsync", "cuMemAllocAsync", 11020);
    Pointer pointer = 0;
    cost = step;
    check(set(nullptr), "no context");
    const Result result = allocate(&pointer, step, stream);
    check(set(context), "set current");
    return keep(result, pointer);
  }
};
// From each pool a little: each takes a granule of the device.
struct ManyPools : Route {
  std::vector<std::pair<Opaque, Pointer>> all;
  Result take(std::uint64_t, std::uint64_t& cost) override {
    constexpr std::size_t kMost = 4096;
    cost = 512;
    Opaque pool = nullptr;
    Pointer pointer = 0;
    if (all.size() == kMost) return kNotFound;
    check(make_pool(pool, 0), "pool");
    const Result result = take_from_pool(pool, cost, pointer);
    if (result == kSuccess)
      all.emplace_back(pool, pointer);
    else
      destroy_pool(pool);
    return result;
  }
  void free_all() override {
    for (const auto& [pool, pointer] : all) {
      check(FIND((Pointer, Opaque), "cuMemFreeAsync", "cuMemFreeAsync", 11020)(pointer, nullptr),
            "cuMemFreeAsync");
      check(FIND((), "cuCtxSynchronize", "cuCtxSynchronize", 2000)(), "synchronize");
      check(FIND((Opaque, std::size_t), "cuMemPoolTrimTo", "cuMemPoolTrimTo", 11020)(pool, 0), "trim");
      destroy_pool(pool);
    }
    all.clear();
  }
  bool is_exact() const override { return false; }
  std::uint64_t granule() const override { return kPoolGranule; }
};
struct Virtual : Route {
  struct Piece {
    Pointer address;
    std::size_t bytes;
  };
  std::vector<Piece> all;
  Device device = 0;  // that the memory is of
  explicit Virtual(Device of = 0) : device(of) {}
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    cost = step;
    AllocationProperties properties{};
    properties.type = 1;
    properties.location = {kLocationDevice, device};
    Handle handle = 0;
    const Result result = FIND((Handle*, std::size_t, const AllocationProperties*, unsigned long long),
                               "cuMemCreate", "cuMemCreate", 10020)(&handle, step, &properties, 0);
    if (result != kSuccess) return result;
    Piece piece{0, step};
    check(FIND((Pointer*, std::size_t, std::size_t, Pointer, unsigned long long), "cuMemAddressReserve",
               "cuMemAddressReserve", 10020)(&piece.address, step, 0, 0, 0),
          "reserve");
    check(FIND((Pointer, std::size_t, std::size_t, Handle, unsigned long long), "cuMemMap", "cuMemMap",
               10020)(piece.address, step, 0, handle, 0),
          "map");
    // As PyTorch does: from here on only the mapping holds it, and then it asks for the handle again.
    const auto release = FIND((Handle), "cuMemRelease", "cuMemRelease", 10020);
    check(release(handle), "release");
    Handle again = 0;
    check(FIND((Handle*, void*), "cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle", 11000)(
              &again, reinterpret_cast<void*>(piece.address)),
          "retain handle");
    check(release(again), "release again");
    all.push_back(piece);
    return result;
  }
  void free_all() override {
    for (const Piece& piece : all) {
      check(FIND((Pointer, std::size_t), "cuMemUnmap", "cuMemUnmap", 10020)(piece.address, piece.bytes),
            "unmap");
      check(FIND((Pointer, std::size_t), "cuMemAddressFree", "cuMemAddressFree", 10020)(piece.address,
                                                                                        piece.bytes),
            "address free");
    }
    all.clear();
  }
};
struct Arrays : Route {
  int kind;  // 2, 3 dimensions, or 0 for a mipmap
  std::vector<Opaque> all;
  explicit Arrays(int which) : kind(which) {}
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    cost = 0;  // the driver's business
    Opaque array = nullptr;
    constexpr int kFloat = 0x20;
    Result result = kSuccess;
    if (kind == 2) {
      const ArrayDescriptor shape{1024, static_cast<std::size_t>(step / 4096), kFloat, 1};
      result =
          FIND((Opaque*, const ArrayDescriptor*), "cuArrayCreate_v2", "cuArrayCreate", 3020)(&array, &shape);
    } else {
      const Array3dDescriptor shape{
          256, 64, static_cast<std::size_t>(std::max<std::uint64_t>(1, step / 65536)), kFloat, 1, 0};
      result = kind == 3 ? FIND((Opaque*, const Array3dDescriptor*), "cuArray3DCreate_v2", "cuArray3DCreate",
                                3020)(&array, &shape)
                         : FIND((Opaque*, const Array3dDescriptor*, unsigned), "cuMipmappedArrayCreate",
                                "cuMipmappedArrayCreate", 5000)(&array, &shape, 3);
    }
    if (result == kSuccess) all.push_back(array);
    return result;
  }
  void free_all() override {
    const auto destroy = kind == 0
                             ? FIND((Opaque), "cuMipmappedArrayDestroy", "cuMipmappedArrayDestroy", 5000)
                             : FIND((Opaque), "cuArrayDestroy", "cuArrayDestroy", 2000);
    for (const Opaque array : all) check(destroy(array), "array destroy");
    all.clear();
  }
  bool is_exact() const override { return false; }
};
inline Outcome fill(Route& route, std::uint64_t step) {
  Outcome outcome;
  for (;;) {
    std::uint64_t cost = 0;
    outcome.end = route.take(step, cost);
    if (outcome.end != kSuccess) return outcome;
    outcome.bytes += cost;
    ++outcome.count;
  }
}

// What an array costs only the driver knows; what is left of the limit says what it was charged.
inline std::uint64_t left() {
  std::size_t free = 0, total = 0;
  check(FIND((std::size_t*, std::size_t*), "cuMemGetInfo_v2", "cuMemGetInfo", 3020)(&free, &total), "info");
  return free;
}

// The most that memory by pointer can have of this: it is given in whole granules. (The fake driver has them
// only if it is told to.)
inline constexpr std::uint64_t kDeviceGranule = 2 << 20;
inline std::uint64_t whole_granules_of(std::uint64_t bytes) {
  const auto ask = reinterpret_cast<Result (*)(std::size_t*, const AllocationProperties*, int)>(
      symbol_of(way == "linked" ? RTLD_DEFAULT : library, "cuMemGetAllocationGranularity"));
  AllocationProperties properties{};
  properties.type = kPinnedMemory;
  properties.location = {kLocationDevice, 0};
  std::size_t granule = 0;
  if (ask == nullptr || ask(&granule, &properties, 0) != kSuccess) return bytes;
  return bytes / granule * granule;
}

inline bool run(const char* name, Route& route, std::uint64_t limit, std::uint64_t step) {
  const std::uint64_t left_before = left();
  const Outcome once = fill(route, step);
  const std::uint64_t left_full = left();
  route.free_all();
  const Outcome again = fill(route, step);
  route.free_all();
  const bool fits = once.bytes <= limit && once.end == kOutOfMemory && once.count > 0;
  const bool is_full = route.is_exact() ? limit - once.bytes < step : left_full < 2 * step + route.granule();
  const bool is_given_back = again.bytes == once.bytes && again.count == once.count && again.end == once.end;
  const bool tells = left_before == limit && (!route.is_exact() || left_full == limit - once.bytes);
  std::printf("%-8s granted %llu in %llu, then error %d; again %llu; left %llu, full %llu: %s\n", name,
              static_cast<unsigned long long>(once.bytes), static_cast<unsigned long long>(once.count),
              once.end, static_cast<unsigned long long>(again.bytes),
              static_cast<unsigned long long>(left_before), static_cast<unsigned long long>(left_full),
              fits && is_full && is_given_back && tells ? "sound" : "WRONG");
  return fits && is_full && is_given_back && tells;
}

}  // namespace cuda_program
