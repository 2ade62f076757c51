// NVIDIA's management library (NVML), opened at run time. It talks to the kernel module through ioctl and
// creates no CUDA context, so it uses no GPU memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace headroom::sources::nvml {

// The types and constants of NVIDIA's management library (NVML) that Headroom uses. They are declared here
// so that no NVIDIA header is needed to build; the library is opened at run time. Names follow NVML's.
// tests/gpu compares the layouts with nvml.h if it is installed.
using Return = unsigned int;  // a C enumeration, which has the size of int
constexpr Return kSuccess = 0;
constexpr Return kNotSupported = 3;
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
// layouts the driver writes: ProcessReader detects it.
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

// The functions that Headroom uses. A function that the driver's library lacks is a null pointer.
struct Functions {
  Return (*init)();
  Return (*shutdown)();
  const char* (*error_string)(Return);
  Return (*driver_version)(char* text, unsigned length);
  Return (*device_count)(unsigned* count);
  Return (*device_by_index)(unsigned index, Device* device);
  Return (*name)(Device, char* text, unsigned length);
  Return (*uuid)(Device, char* text, unsigned length);
  Return (*pci_info)(Device, PciInfo* info);
  Return (*memory_v1)(Device, MemoryV1* memory);
  Return (*memory_v2)(Device, MemoryV2* memory);
  Return (*utilization)(Device, Utilization* utilization);
  Return (*encoder_utilization)(Device, unsigned* percent, unsigned* period_us);
  Return (*decoder_utilization)(Device, unsigned* percent, unsigned* period_us);
  Return (*clock)(Device, unsigned type, unsigned* megahertz);
  Return (*power)(Device, unsigned* milliwatts);
  Return (*power_limit)(Device, unsigned* milliwatts);
  Return (*temperature)(Device, unsigned sensor, unsigned* celsius);
  Return (*clock_reasons)(Device, unsigned long long* reasons);
  Return (*mig_mode)(Device, unsigned* current, unsigned* pending);
  Return (*mig_count)(Device, unsigned* count);  // the maximum number of instances
  Return (*mig_by_index)(Device, unsigned index, Device* instance);
  Return (*gpu_instance)(Device instance, unsigned* id);
  Return (*compute_instance)(Device instance, unsigned* id);
  // The layout of the entries is detected (ProcessReader). `count` is the capacity before the call and
  // the number of entries after it.
  Return (*compute_processes)(Device, unsigned* count, void* entries);
  Return (*graphics_processes)(Device, unsigned* count, void* entries);
  Return (*mps_processes)(Device, unsigned* count, void* entries);
};

class Library {
 public:
  // Opens and initialises the library. `file_name` is searched as dlopen does. If the default is not found,
  // the folder of Windows Subsystem for Linux is tried. Fails if the library cannot be opened, is not NVML,
  // or does not start (driver not loaded, no permission, driver and library of different versions).
  static Result<std::shared_ptr<const Library>> open(const std::string& file_name = kFileName);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  std::string driver_version() const;  // "580.159.04"; empty if unknown

  static constexpr const char* kFileName = "libnvidia-ml.so.1";

 private:
  Library(void* handle, const Functions& functions) : handle_(handle), functions_(functions) {}
  void* handle_;
  Functions functions_;
};

}  // namespace headroom::sources::nvml
