// The types and constants of NVIDIA's management library (NVML) that Headroom uses. They are declared here
// so that no NVIDIA header is needed to build; the library is opened at run time. Names follow NVML's.
// tests/gpu compares the layouts with nvml.h if it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom::sources::nvml {

using Return = unsigned int;  // a C enumeration, which has the size of int
constexpr Return kSuccess = 0;
constexpr Return kNotSupported = 3;
constexpr Return kNoPermission = 4;
constexpr Return kNotFound = 6;
constexpr Return kInsufficientSize = 7;
constexpr Return kGpuIsLost = 15;
constexpr Return kResetRequired = 16;

struct DeviceHandle;
using Device = DeviceHandle*;

constexpr unsigned kUuidLength = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
constexpr unsigned kNameLength = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
constexpr unsigned kVersionLength = 80;
constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE
constexpr unsigned kNoInstance = ~0U;                // the process runs on no MIG instance

constexpr unsigned kGraphicsClock = 0, kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t
constexpr unsigned kGpuTemperature = 0;                                 // NVML_TEMPERATURE_GPU

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char bus_id[32];
};

struct MemoryV1 {
  unsigned long long total, free, used;  // `used` includes reserved memory
};

struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;  // `used` excludes reserved memory
};
// NVML_STRUCT_VERSION: the size, and the version in the highest byte.
constexpr unsigned kMemoryV2Version = sizeof(MemoryV2) | 2U << 24U;

struct Utilization {
  unsigned gpu, memory;
};

// Entries of the process lists. The version in a function's name does not determine which of the three
// layouts the driver writes: nvml_processes.cpp detects it.
struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used;
};
struct ProcessInfoV2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct ProcessInfoV3 {  // first R535 drivers
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
  unsigned long long protected_memory;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(MemoryV1) == 24 && sizeof(MemoryV2) == 40);
static_assert(sizeof(ProcessInfoV1) == 16 && sizeof(ProcessInfoV2) == 24 && sizeof(ProcessInfoV3) == 32);

// nvmlClocksEventReason*; until R535 nvmlClocksThrottleReason*.
enum ClockReason : std::uint64_t {
  kGpuIdle = 0x1,
  kApplicationsClocksSetting = 0x2,
  kSwPowerCap = 0x4,
  kHwSlowdown = 0x8,
  kSyncBoost = 0x10,
  kSwThermalSlowdown = 0x20,
  kHwThermalSlowdown = 0x40,
  kHwPowerBrakeSlowdown = 0x80,
  kDisplayClockSetting = 0x100,
};

}  // namespace headroom::sources::nvml
