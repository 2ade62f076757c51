// The fake driver's cuGetProcAddress.
#include <cstring>

#include "support/fake_cuda_state.h"

using namespace fake_cuda;

// Each row: name, first driver version with this function, default stream (2: per thread), function. The
// functions of other files are declared without parameters, because only their addresses are used.
// clang-format off
#define KNOWN_CALLS(CALL) \
  CALL("cuInit", 2000, 0, cuInit) \
  CALL("cuDeviceGet", 2000, 0, cuDeviceGet) \
  CALL("cuMemAlloc", 3020, 0, cuMemAlloc_v2) \
  CALL("cuMemFree", 3020, 0, cuMemFree_v2) \
  CALL("cuMemAllocPitch", 3020, 0, cuMemAllocPitch_v2) \
  CALL("cuMemAllocManaged", 6000, 0, cuMemAllocManaged) \
  CALL("cuMemHostAlloc", 2020, 0, cuMemHostAlloc) \
  CALL("cuIpcGetMemHandle", 4010, 0, cuIpcGetMemHandle) \
  CALL("cuIpcOpenMemHandle", 11000, 0, cuIpcOpenMemHandle_v2) \
  CALL("cuIpcCloseMemHandle", 4010, 0, cuIpcCloseMemHandle) \
  CALL("cuDeviceGetAttribute", 2000, 0, cuDeviceGetAttribute) \
  CALL("cuMemFreeHost", 2000, 0, cuMemFreeHost) \
  CALL("cuMemGetInfo", 3020, 0, cuMemGetInfo_v2) \
  CALL("cuDeviceTotalMem", 3020, 0, cuDeviceTotalMem_v2) \
  CALL("cuMemAllocAsync", 11020, 0, cuMemAllocAsync) \
  CALL("cuMemAllocAsync", 11020, 2, cuMemAllocAsync_ptsz) \
  CALL("cuMemAllocFromPoolAsync", 11020, 0, cuMemAllocFromPoolAsync) \
  CALL("cuMemFreeAsync", 11020, 0, cuMemFreeAsync) \
  CALL("cuMemFreeAsync", 11020, 2, cuMemFreeAsync_ptsz) \
  CALL("cuMemPoolCreate", 11020, 0, cuMemPoolCreate) \
  CALL("cuMemPoolTrimTo", 11020, 0, cuMemPoolTrimTo) \
  CALL("cuMemPoolDestroy", 11020, 0, cuMemPoolDestroy) \
  CALL("cuMemCreate", 10020, 0, cuMemCreate) \
  CALL("cuMemRelease", 10020, 0, cuMemRelease) \
  CALL("cuMemAddressReserve", 10020, 0, cuMemAddressReserve) \
  CALL("cuMemAddressFree", 10020, 0, cuMemAddressFree) \
  CALL("cuMemMap", 10020, 0, cuMemMap) \
  CALL("cuMemRetainAllocationHandle", 11000, 0, cuMemRetainAllocationHandle) \
  CALL("cuMemUnmap", 10020, 0, cuMemUnmap) \
  CALL("cuMemExportToShareableHandle", 10020, 0, cuMemExportToShareableHandle) \
  CALL("cuMemImportFromShareableHandle", 10020, 0, cuMemImportFromShareableHandle) \
  CALL("cuMemMapArrayAsync", 11010, 0, cuMemMapArrayAsync) \
  CALL("cuArrayCreate", 3020, 0, cuArrayCreate_v2) \
  CALL("cuArray3DCreate", 3020, 0, cuArray3DCreate_v2) \
  CALL("cuArrayDestroy", 2000, 0, cuArrayDestroy) \
  CALL("cuMipmappedArrayCreate", 5000, 0, cuMipmappedArrayCreate) \
  CALL("cuMipmappedArrayDestroy", 5000, 0, cuMipmappedArrayDestroy) \
  CALL("cuGraphCreate", 10000, 0, cuGraphCreate) \
  CALL("cuGraphAddMemAllocNode", 11040, 0, cuGraphAddMemAllocNode) \
  CALL("cuGraphAddMemFreeNode", 11040, 0, cuGraphAddMemFreeNode) \
  CALL("cuGraphDestroy", 10000, 0, cuGraphDestroy) \
  CALL("cuGraphInstantiateWithFlags", 11040, 0, cuGraphInstantiateWithFlags) \
  CALL("cuGraphExecUpdate", 10020, 0, cuGraphExecUpdate) \
  CALL("cuGraphExecUpdate", 12000, 0, cuGraphExecUpdate_v2) \
  CALL("cuGraphExecDestroy", 10000, 0, cuGraphExecDestroy) \
  CALL("cuGraphLaunch", 10000, 0, cuGraphLaunch) \
  CALL("cuStreamCreate", 2000, 0, cuStreamCreate) \
  CALL("cuStreamDestroy", 4000, 0, cuStreamDestroy_v2) \
  CALL("cuCtxCreate", 3020, 0, cuCtxCreate_v2) \
  CALL("cuCtxDestroy", 4000, 0, cuCtxDestroy_v2) \
  CALL("cuStreamSynchronize", 2000, 0, cuStreamSynchronize) \
  CALL("cuStreamBeginCapture", 10010, 0, cuStreamBeginCapture_v2) \
  CALL("cuStreamBeginCapture", 10010, 2, cuStreamBeginCapture_v2_ptsz) \
  CALL("cuStreamEndCapture", 10000, 0, cuStreamEndCapture) \
  CALL("cuStreamEndCapture", 10000, 2, cuStreamEndCapture_ptsz) \
  CALL("cuDevicePrimaryCtxRetain", 7000, 0, cuDevicePrimaryCtxRetain) \
  CALL("cuDevicePrimaryCtxReset", 11000, 0, cuDevicePrimaryCtxReset_v2) \
  CALL("cuDevicePrimaryCtxRelease", 11000, 0, cuDevicePrimaryCtxRelease_v2) \
  CALL("cuCtxSynchronize", 2000, 0, cuCtxSynchronize) \
  CALL("cuDeviceGetGraphMemAttribute", 11040, 0, cuDeviceGetGraphMemAttribute) \
  CALL("cuDeviceGetMemPool", 11020, 0, cuDeviceGetMemPool) \
  CALL("cuDeviceGetDefaultMemPool", 11020, 0, cuDeviceGetDefaultMemPool) \
  CALL("cuDeviceGetCount", 2000, 0, cuDeviceGetCount) \
  CALL("cuCtxSetCurrent", 4000, 0, cuCtxSetCurrent) \
  CALL("cuCtxGetCurrent", 4000, 0, cuCtxGetCurrent) \
  CALL("cuModuleLoadData", 2000, 0, cuModuleLoadData) \
  CALL("cuLaunchKernel", 4000, 0, cuLaunchKernel)
// clang-format on

#define DECLARE(name, since, flags, function) extern "C" void function();
KNOWN_CALLS(DECLARE)
#undef DECLARE

EXPORTED Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                    int* status);
EXPORTED Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
EXPORTED Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                    int* status) {
  struct Known {
    const char* name;
    int since;
    std::uint64_t flags;
    void* function;
  };
#define ENTRY(name, since, flags, function) {name, since, flags, reinterpret_cast<void*>(&function)},
  static const Known known[] = {KNOWN_CALLS(ENTRY) ENTRY("cuGetProcAddress", 11030, 0, cuGetProcAddress)
                                    ENTRY("cuGetProcAddress", 12000, 0, cuGetProcAddress_v2)};
#undef ENTRY
  *function = nullptr;
  int best = -1;
  std::uint64_t best_flags = 0;
  for (const Known& one : known) {
    if (std::strcmp(one.name, name) != 0 || one.since > version || (one.flags != 0 && one.flags != flags))
      continue;
    if (one.since < best || (one.since == best && one.flags < best_flags)) continue;
    best = one.since;
    best_flags = one.flags;
    *function = one.function;
  }
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? kSuccess : kNotFound;
}
