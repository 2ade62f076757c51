// The types and constants of the CUDA driver's ABI: for Headroom's own calls, the hooks of the preload
// library, and the tests' fake driver. They are declared here so that the build needs no CUDA toolkit.
// Layouts follow NVIDIA's cuda.h, which keeps them stable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom::cuda {

using Code = int;  // CUresult
inline constexpr Code kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kNotFound = 500,
                      kNotSupported = 801;

// A function of the driver, looked up at run time. A call returns `missing` if this driver does not have it.
template <class Signature, Code missing = kNotFound>
struct DriverFunction;
template <class... Parameters, Code missing>
struct DriverFunction<Code(Parameters...), missing> {
  Code (*pointer)(Parameters...) = nullptr;
  Code operator()(Parameters... arguments) const {
    return pointer != nullptr ? pointer(arguments...) : missing;
  }
  explicit operator bool() const { return pointer != nullptr; }
};

using Pointer = std::uint64_t;  // CUdeviceptr
using Handle = std::uint64_t;   // CUmemGenericAllocationHandle
using Opaque = void*;           // CUcontext, CUstream, CUevent, CUarray, CUmemoryPool, CUgraph, …
using Device = int;             // the device's ordinal

inline constexpr int kLocationDevice = 1;      // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kPinnedMemory = 1;        // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kManagedMemory = 2;       // CU_MEM_ALLOCATION_TYPE_MANAGED, since CUDA 13
inline constexpr int kMinimumGranularity = 0;  // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr int kFloatElements = 0x20;    // CU_AD_FORMAT_FLOAT
struct Location {
  int type, id;
};
struct AllocationProperties {  // CUmemAllocationProp
  int type, handle_types;
  Location location;
  void* windows;
  unsigned char flags[8];
};
struct PoolProperties {  // CUmemPoolProps
  int type, handle_types;
  Location location;
  void* windows;
  std::size_t max_size;  // since 12.2; reserved before
  unsigned char reserved[56];
};
static_assert(sizeof(PoolProperties) == 88);

struct ArrayDescriptor {  // CUDA_ARRAY_DESCRIPTOR
  std::size_t width, height;
  int format;
  unsigned channels;
};
struct Array3dDescriptor {  // CUDA_ARRAY3D_DESCRIPTOR
  std::size_t width, height, depth;
  int format;
  unsigned channels, flags;
};
inline constexpr unsigned kArraySparse = 0x40, kArrayDeferred = 0x80;  // these allocate no memory at creation
struct MemoryRequirements {                                            // CUDA_ARRAY_MEMORY_REQUIREMENTS
  std::size_t size, alignment;
  unsigned reserved[4];
};

struct ArrayMapping {  // CUarrayMapInfo
  int resource_type;
  Opaque array;
  int part_type;
  union {
    struct {
      unsigned level, layer, x, y, z, width, height, depth;
    } tiles;
    struct {
      unsigned layer;
      unsigned long long offset, size;
    } tail;
  } part;
  int operation, handle_type;
  Handle handle;
  unsigned long long offset;
  unsigned devices, flags, reserved[2];
};
static_assert(sizeof(ArrayMapping) == 96);
inline constexpr int kMapPart = 1;  // CU_MEM_OPERATION_TYPE_MAP

struct IpcHandle {  // CUipcMemHandle
  char bytes[64];
};
struct ExternalMemoryHandle {  // CUDA_EXTERNAL_MEMORY_HANDLE_DESC
  int type;
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } windows;
  } handle;
  unsigned long long size;
  unsigned flags, reserved[16];
};

struct AllocationNode {  // CUDA_MEM_ALLOC_NODE_PARAMS
  PoolProperties pool;
  const void* access;
  std::size_t access_count, bytes;
  Pointer address;
};
struct ChildGraphNode {  // CUDA_CHILD_GRAPH_NODE_PARAMS
  Opaque graph;
  int ownership;
};
inline constexpr int kChildGraphMoved = 1;  // CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
// CU_GRAPH_NODE_TYPE_GRAPH, _MEM_ALLOC, _MEM_FREE
inline constexpr int kChildGraphNode = 4, kAllocationNode = 10, kFreeNode = 11;
struct NodeParameters {  // CUgraphNodeParams
  int type, reserved[3];
  union {
    long long padding[29];
    AllocationNode allocate;
    Pointer free;
    ChildGraphNode child;
  } of;
};

inline constexpr int kPoolReservedCurrent = 5;              // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
inline constexpr int kGraphReservedCurrent = 2;             // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
inline constexpr int kAttributeIntegrated = 18;             // CU_DEVICE_ATTRIBUTE_INTEGRATED
inline constexpr int kPointerDevice = 9;                    // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr int kPointerMapped = 13;                   // CU_POINTER_ATTRIBUTE_MAPPED
inline constexpr int kCaptureNone = 0, kCaptureActive = 1;  // CU_STREAM_CAPTURE_STATUS_NONE, _ACTIVE
// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, _RELAXED
inline constexpr int kCaptureThreadLocal = 1, kCaptureRelaxed = 2;
// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
inline constexpr int kAttributeMajor = 75, kAttributeMinor = 76;

}  // namespace headroom::cuda
