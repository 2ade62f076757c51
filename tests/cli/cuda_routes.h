// Routes that allocate GPU memory with the CUDA driver, for traced test programs. Each route allocates until
// it is refused, frees everything, and repeats that.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "cli/cuda_calls.h"

namespace cuda_program {

// Prints what was found and whether it is right, and returns that.
[[gnu::format(printf, 2, 3)]] inline bool report(bool is_sound, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::vprintf(format, values);
  va_end(values);
  std::printf(": %s\n", is_sound ? "sound" : "WRONG");
  return is_sound;
}

// Returns null if the driver lacks the function, or is not the fake driver.
template <class Function>
Function optional(const char* name) {
  return reinterpret_cast<Function>(symbol_of(library, name));
}

// The most that the fake driver allocated; 0 with a real driver.
inline std::uint64_t fake_peak(unsigned device = 0) {
  const auto peak = optional<std::uint64_t (*)(unsigned)>("fake_cuda_peak");
  return peak != nullptr ? peak(device) : 0;
}

inline Opaque current_context() {
  Opaque context = nullptr;
  check(cuCtxGetCurrent(&context), "context");
  return context;
}
inline void make_current(Opaque context) { check(cuCtxSetCurrent(context), "set current"); }
inline Opaque retain_primary_context(Device device) {
  Opaque context = nullptr;
  check(cuDevicePrimaryCtxRetain(&context, device), "retain");
  return context;
}
inline void start_context() {
  check(cuInit(0), "cuInit");
  make_current(retain_primary_context(0));
}
inline Opaque make_context() {
  Opaque context = nullptr;
  check(cuCtxCreate_v2(&context, 0, 0), "context");
  return context;
}
inline void destroy_context(Opaque context) { check(cuCtxDestroy_v2(context), "context destroy"); }
// In the current context.
inline Opaque make_stream() {
  Opaque stream = nullptr;
  check(cuStreamCreate(&stream, 1), "stream");
  return stream;
}
inline void begin_capture(Opaque stream) {
  constexpr int kRelaxed = 2;
  check(cuStreamBeginCapture_v2(stream, kRelaxed), "begin capture");
}
inline void synchronize() { check(cuCtxSynchronize(), "synchronize"); }
inline void free_pointer(Pointer pointer) { check(cuMemFree_v2(pointer), "free"); }
inline void free_in_order(Pointer pointer, Opaque stream = nullptr) {
  check(cuMemFreeAsync(pointer, stream), "stream-ordered free");
}

struct Outcome {
  std::uint64_t bytes = 0, count = 0;
  Result end = kSuccess;
};

// One kind of allocation. allocate() makes one step, and sets `cost` to the bytes that it counts against the
// limit.
struct Route {
  virtual ~Route() = default;
  virtual Result allocate(std::uint64_t step, std::uint64_t& cost) = 0;
  virtual void free_all() = 0;
  virtual bool is_exact() const { return true; }  // a step costs the requested bytes
  // Bytes that may stay unused, because the driver allocates in such steps.
  virtual std::uint64_t granule() const { return 0; }

  Result request(std::uint64_t bytes) {
    std::uint64_t cost = 0;
    return allocate(bytes, cost);
  }
  bool grants(std::uint64_t bytes) { return request(bytes) == kSuccess; }
  bool refuses(std::uint64_t bytes) { return request(bytes) == kOutOfMemory; }
};

struct Pointers : Route {
  std::vector<Pointer> all;
  void free_all() override {
    for (const Pointer pointer : all) free_pointer(pointer);
    all.clear();
  }
  Result keep(Result result, const Pointer& pointer) {  // by reference: the call sets it
    if (result == kSuccess) all.push_back(pointer);
    return result;
  }
};
struct Plain : Pointers {
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    cost = step;
    return keep(cuMemAlloc_v2(&pointer, step), pointer);
  }
};
// Whether the driver grants one plain allocation of this size, which is freed at once.
inline bool fits_once(std::uint64_t bytes) {
  Plain one;
  const bool is_granted = one.grants(bytes);
  one.free_all();
  return is_granted;
}
struct Managed : Pointers {
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    cost = step;
    return keep(cuMemAllocManaged(&pointer, step, 1), pointer);
  }
};
struct Pitch : Pointers {
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    std::size_t pitch = 0;
    const std::size_t width = 1000, height = step / 1024;
    const Result result = cuMemAllocPitch_v2(&pointer, &pitch, width, height, 4);
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
  return cuMemPoolCreate(&pool, &properties);
}
inline void destroy_pool(Opaque pool) { check(cuMemPoolDestroy(pool), "pool destroy"); }
inline Result take_from_pool(Opaque pool, std::uint64_t bytes, Pointer& pointer) {
  return cuMemAllocFromPoolAsync(&pointer, bytes, pool, nullptr);
}

struct Async : Pointers {
  Opaque pool = nullptr;
  bool of_own_pool = false, is_managed = false;
  Device device = 0;  // of the pool; another device than the current one needs an explicit pool
  explicit Async(bool own, Device of = 0, bool managed = false)
      : of_own_pool(own), is_managed(managed), device(of) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    Pointer pointer = 0;
    cost = step;
    if (of_own_pool && pool == nullptr) check(make_pool(pool, device, is_managed), "pool");
    if (!of_own_pool && device != 0 && pool == nullptr)
      check(cuDeviceGetDefaultMemPool(&pool, device), "default pool");
    if (pool != nullptr) return keep(take_from_pool(pool, step, pointer), pointer);
    return keep(cuMemAllocAsync(&pointer, step, nullptr), pointer);
  }
  void free_all() override {
    for (const Pointer pointer : all) free_in_order(pointer);
    all.clear();
    // Memory freed in stream order stays in the pool until it is trimmed.
    synchronize();
    Opaque of_device = nullptr;
    check(cuDeviceGetMemPool(&of_device, device), "pool of device");
    check(cuMemPoolTrimTo(of_device, 0), "trim");
    if (of_own_pool && pool != nullptr) destroy_pool(pool);
    pool = nullptr;
  }
  bool is_exact() const override { return false; }
  std::uint64_t granule() const override { return kPoolGranule; }
};
// In a stream of a context that is not current; no context is.
struct AsyncElsewhere : Async {
  Opaque stream = nullptr;
  AsyncElsewhere() : Async(false) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    const Opaque context = current_context();
    if (stream == nullptr) stream = make_stream();
    Pointer pointer = 0;
    cost = step;
    make_current(nullptr);
    const Result result = cuMemAllocAsync(&pointer, step, stream);
    make_current(context);
    return keep(result, pointer);
  }
};
// A few bytes from each of many pools: each pool uses a whole step of the device.
struct ManyPools : Route {
  std::vector<std::pair<Opaque, Pointer>> all;
  Result allocate(std::uint64_t, std::uint64_t& cost) override {
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
      free_in_order(pointer);
      synchronize();
      check(cuMemPoolTrimTo(pool, 0), "trim");
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
  Device device = 0;  // of the memory
  explicit Virtual(Device of = 0) : device(of) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    cost = step;
    AllocationProperties properties{};
    properties.type = 1;
    properties.location = {kLocationDevice, device};
    Handle handle = 0;
    const Result result = cuMemCreate(&handle, step, &properties, 0);
    if (result != kSuccess) return result;
    Piece piece{0, step};
    check(cuMemAddressReserve(&piece.address, step, 0, 0, 0), "reserve");
    check(cuMemMap(piece.address, step, 0, handle, 0), "map");
    // As PyTorch does: releases the handle, so that only the mapping keeps the memory, and later retains it
    // by address.
    check(cuMemRelease(handle), "release");
    Handle again = 0;
    check(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(piece.address)), "retain handle");
    check(cuMemRelease(again), "release again");
    all.push_back(piece);
    return result;
  }
  void free_all() override {
    for (const Piece& piece : all) {
      check(cuMemUnmap(piece.address, piece.bytes), "unmap");
      check(cuMemAddressFree(piece.address, piece.bytes), "address free");
    }
    all.clear();
  }
};
struct Arrays : Route {
  int kind;  // 2, 3 dimensions, or 0 for a mipmap
  std::vector<Opaque> all;
  explicit Arrays(int which) : kind(which) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    cost = 0;  // known only to the driver
    Opaque array = nullptr;
    constexpr int kFloat = 0x20;
    Result result = kSuccess;
    if (kind == 2) {
      const ArrayDescriptor shape{1024, static_cast<std::size_t>(step / 4096), kFloat, 1};
      result = cuArrayCreate_v2(&array, &shape);
    } else {
      const Array3dDescriptor shape{
          256, 64, static_cast<std::size_t>(std::max<std::uint64_t>(1, step / 65536)), kFloat, 1, 0};
      result = kind == 3 ? cuArray3DCreate_v2(&array, &shape) : cuMipmappedArrayCreate(&array, &shape, 3);
    }
    if (result == kSuccess) all.push_back(array);
    return result;
  }
  void free_all() override {
    const auto destroy = kind == 0 ? cuMipmappedArrayDestroy : cuArrayDestroy;
    for (const Opaque array : all) check(destroy(array), "array destroy");
    all.clear();
  }
  bool is_exact() const override { return false; }
};
inline Outcome fill(Route& route, std::uint64_t step) {
  Outcome outcome;
  for (;;) {
    std::uint64_t cost = 0;
    outcome.end = route.allocate(step, cost);
    if (outcome.end != kSuccess) return outcome;
    outcome.bytes += cost;
    ++outcome.count;
  }
}

// The bytes left of the limit. For arrays this shows the charge, because only the driver knows their size.
inline std::uint64_t left() {
  std::size_t free = 0, total = 0;
  check(cuMemGetInfo_v2(&free, &total), "info");
  return free;
}

// Rounds down to whole granules: memory by pointer is allocated in these. (The fake driver uses granules only
// if FAKE_CUDA_GRANULE is set.)
inline constexpr std::uint64_t kDeviceGranule = 2 << 20;
inline std::uint64_t whole_granules_of(std::uint64_t bytes) {
  const auto ask = reinterpret_cast<Result (*)(std::size_t*, const AllocationProperties*, int)>(
      symbol_of(lookup == "linked" ? RTLD_DEFAULT : library, "cuMemGetAllocationGranularity"));
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
  return report(fits && is_full && is_given_back && tells,
                "%-8s granted %lu in %lu, then error %d; again %lu; left %lu, full %lu", name, once.bytes,
                once.count, once.end, again.bytes, left_before, left_full);
}

}  // namespace cuda_program
