// The fake driver's devices, contexts and streams.
#include <cstdio>
#include <cstring>

#include <atomic>

#include "support/fake_cuda_state.h"

using namespace fake_cuda;
void fake_cuda_abandon_capture();  // fake_cuda_pools.cpp; caller holds the lock

namespace {

void drop_context(Opaque context) {
  finish_pending(context);
  if (captured_stream != nullptr && streams[captured_stream] == context) fake_cuda_abandon_capture();
  for (auto it = blocks.begin(); it != blocks.end();) {
    if (it->second.context != context || it->second.pool != nullptr) {  // pool memory outlives the context
      ++it;
      continue;
    }
    release_block(it->second);
    it = blocks.erase(it);
  }
}

}  // namespace

// --- for tests

EXPORTED std::uint64_t fake_cuda_peak(unsigned device) { return peak[device]; }
EXPORTED std::uint64_t fake_cuda_in_use(unsigned device) { return in_use[device]; }
// Bytes that launches made the driver load into the context.
static std::atomic<std::uint64_t> loaded_at_launch{0};
EXPORTED void fake_cuda_load_at_launch(std::uint64_t bytes) { loaded_at_launch += bytes; }
// The memory of the process as NVML reports it: allocations larger than half a granule count as whole
// granules, and managed memory does not count.
EXPORTED std::uint64_t fake_cuda_used(unsigned device) {
  const std::lock_guard lock(mutex);
  const std::uint64_t granule = setting("FAKE_CUDA_GRANULE", 0);
  std::uint64_t used = in_use[device];
  for (const auto& [address, block] : blocks) {
    if (granule == 0 || block.device != device || block.pool != nullptr || block.graph != nullptr) continue;
    if (block.is_managed) used -= block.bytes;
  }
  const std::uint64_t of_context = setting("FAKE_CUDA_CONTEXT", 0);
  for (Opaque const context : own_contexts)
    if (static_cast<Context*>(context)->device == device) used += of_context;
  return used + (primary[device].users > 0 ? of_context + loaded_at_launch : 0);
}
// A test's function that runs while a module is loaded, as other work of the program at that time.
static void (*while_loading)() = nullptr;
EXPORTED void fake_cuda_while_loading(void (*work)()) { while_loading = work; }

// --- devices and contexts

EXPORTED Result cuInit(unsigned) {
  is_initialized = true;
  return kSuccess;
}
EXPORTED Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
EXPORTED Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(device_count());
  return kSuccess;
}
EXPORTED Result cuDeviceGet(Device* device, int ordinal) {
  if (!is_initialized) return kNotInitialized;
  *device = ordinal;
  return static_cast<unsigned>(ordinal) < device_count() ? kSuccess : 101;
}
EXPORTED Result cuDeviceGetName(char* name, int bytes, Device device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Fake GPU %d", device);
  return kSuccess;
}
// For a MIG instance the first function returns the GPU's UUID, the second the instance's.
EXPORTED Result cuDeviceGetUuid(void* uuid, Device device) {
  std::memset(uuid, setting("FAKE_CUDA_MIG", 0) != 0 ? 0xaa : 0x10 + machine_ordinal(device), 16);
  return kSuccess;
}
EXPORTED Result cuDeviceGetUuid_v2(void* uuid, Device device) {
  std::memset(uuid, 0x10 + machine_ordinal(device), 16);
  return kSuccess;
}
EXPORTED Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == kAttributeIntegrated ? static_cast<int>(setting("FAKE_CUDA_INTEGRATED", 0)) : 1;
  return kSuccess;
}
EXPORTED Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = total();
  return kSuccess;
}
EXPORTED Result cuMemGetInfo_v2(std::size_t* free, std::size_t* all) {
  if (current == nullptr) return kInvalidContext;
  *all = total();
  *free = total() - fake_cuda_used(current_device());
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxRetain(Opaque* context, Device device) {
  const Call call;
  if (!is_initialized) return kNotInitialized;
  primary[device].device = static_cast<unsigned>(device);
  ++primary[device].users;
  *context = &primary[device];
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxRelease_v2(Device device) {
  const Call call;
  if (--primary[device].users == 0) drop_context(&primary[device]);
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxReset_v2(Device device) {
  const std::lock_guard lock(mutex);
  drop_context(&primary[device]);
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  *flags = 0;
  *active = primary[device].users > 0 ? 1 : 0;
  return kSuccess;
}
EXPORTED Result cuCtxSetCurrent(Opaque context) {
  current = context;
  return kSuccess;
}
EXPORTED Result cuCtxGetCurrent(Opaque* context) {
  *context = current;
  return kSuccess;
}
static thread_local Opaque below = nullptr;  // a stack of one context
EXPORTED Result cuCtxPushCurrent_v2(Opaque context) {
  below = current;
  current = context;
  return kSuccess;
}
EXPORTED Result cuCtxPopCurrent_v2(Opaque* context) {
  *context = current;
  current = below;
  return kSuccess;
}
EXPORTED Result cuCtxGetDevice(Device* device) {
  if (current == nullptr) return kInvalidContext;
  *device = static_cast<Device>(current_device());
  return kSuccess;
}
// During a capture this is an error, which ends the capture.
EXPORTED Result cuCtxSynchronize() {
  const Call call;
  if (captured_stream != nullptr) {
    capture_is_invalid = true;
    return kNoCapture;
  }
  finish_pending(current);
  return kSuccess;
}
EXPORTED Result cuCtxSynchronize_v2(Opaque context) {
  const Opaque before = std::exchange(current, context);
  const Result result = cuCtxSynchronize();
  current = before;
  return result;
}

// --- contexts that a program creates

EXPORTED Result cuCtxCreate_v2(Opaque* context, unsigned, Device device) {
  const Call call;
  Context* made = nullptr;
  if (free_contexts.empty()) {
    made = &made_contexts.emplace_back();
  } else {
    made = free_contexts.back();
    free_contexts.pop_back();
  }
  *made = {static_cast<unsigned>(device), 1};
  own_contexts.insert(made);
  *context = current = made;
  return kSuccess;
}
EXPORTED Result cuCtxDestroy_v2(Opaque context) {
  const Call call;
  if (own_contexts.erase(context) == 0) return kInvalidContext;
  drop_context(context);
  free_contexts.push_back(static_cast<Context*>(context));
  if (current == context) current = nullptr;
  return kSuccess;
}
EXPORTED Result cuModuleLoadData(Opaque* module, const void*) {
  if (while_loading != nullptr) while_loading();
  const std::lock_guard lock(mutex);
  if (current == nullptr) return kInvalidContext;
  *module = handle();
  return grow(current_device(), 3 << 20) ? kSuccess : kOutOfMemory;
}
EXPORTED Result cuModuleUnload(Opaque) {
  const std::lock_guard lock(mutex);
  in_use[current_device()] -= 3 << 20;
  return kSuccess;
}
EXPORTED Result cuLibraryLoadData(Opaque* library, const void* code, void*, void**, unsigned, void*, void**,
                                  unsigned) {
  return cuModuleLoadData(library, code);
}
EXPORTED Result cuLibraryUnload(Opaque library) { return cuModuleUnload(library); }
EXPORTED Result cuModuleGetFunction(Opaque* function, Opaque module, const char*) {
  *function = module;
  return kSuccess;
}
EXPORTED Result cuLaunchKernel(Opaque, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               Opaque, void**, void**) {
  return kSuccess;
}

// --- streams and events: all work completes at once; two events are always 1 ms apart

EXPORTED Result cuStreamCreate(Opaque* stream, unsigned) {
  const std::lock_guard lock(mutex);
  if (current == nullptr) return kInvalidContext;
  *stream = handle();
  streams[*stream] = current;
  return kSuccess;
}
EXPORTED Result cuStreamGetCtx(Opaque stream, Opaque* context) {
  const std::lock_guard lock(mutex);
  const auto found = streams.find(stream);
  if (found == streams.end()) return kInvalidValue;
  *context = found->second;
  return kSuccess;
}
EXPORTED Result cuStreamDestroy_v2(Opaque stream) {
  const std::lock_guard lock(mutex);
  if (stream != nullptr && stream == captured_stream) fake_cuda_abandon_capture();
  return kSuccess;
}
// For a captured stream this is an error, which ends the capture.
EXPORTED Result cuStreamSynchronize(Opaque stream) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr || stream != captured_stream) return kSuccess;
  capture_is_invalid = true;
  return kNoCapture;
}
EXPORTED Result cuEventCreate(Opaque* event, unsigned) {
  const std::lock_guard lock(mutex);
  *event = handle();
  return kSuccess;
}
EXPORTED Result cuEventDestroy_v2(Opaque) { return kSuccess; }
EXPORTED Result cuEventRecord(Opaque, Opaque) { return kSuccess; }
EXPORTED Result cuEventElapsedTime(float* milliseconds, Opaque, Opaque) {
  *milliseconds = 1;
  return kSuccess;
}
EXPORTED Result cuMemcpyHtoDAsync_v2(Pointer, const void*, std::size_t, Opaque) { return kSuccess; }
EXPORTED Result cuMemcpyDtoHAsync_v2(void*, Pointer, std::size_t, Opaque) { return kSuccess; }
EXPORTED Result cuGetErrorName(Result code, const char** name) {
  *name = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
  return kSuccess;
}
