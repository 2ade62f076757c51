// Compares Headroom's declarations of NVML with NVIDIA's header, at compile time.
#include <gtest/gtest.h>

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "sources/nvml_library.h"

namespace headroom::sources::nvml {
namespace {

static_assert(sizeof(MemoryV1) == sizeof(nvmlMemory_t));
static_assert(offsetof(MemoryV1, total) == offsetof(nvmlMemory_t, total));
static_assert(offsetof(MemoryV1, free) == offsetof(nvmlMemory_t, free));
static_assert(offsetof(MemoryV1, used) == offsetof(nvmlMemory_t, used));

static_assert(sizeof(MemoryV2) == sizeof(nvmlMemory_v2_t));
static_assert(offsetof(MemoryV2, version) == offsetof(nvmlMemory_v2_t, version));
static_assert(offsetof(MemoryV2, total) == offsetof(nvmlMemory_v2_t, total));
static_assert(offsetof(MemoryV2, reserved) == offsetof(nvmlMemory_v2_t, reserved));
static_assert(offsetof(MemoryV2, free) == offsetof(nvmlMemory_v2_t, free));
static_assert(offsetof(MemoryV2, used) == offsetof(nvmlMemory_v2_t, used));
static_assert(kMemoryV2Version == nvmlMemory_v2);

static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(PciInfo, bus_id_legacy) == offsetof(nvmlPciInfo_t, busIdLegacy));
static_assert(offsetof(PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));

static_assert(sizeof(ProcessInfoV1) == sizeof(nvmlProcessInfo_v1_t));
static_assert(offsetof(ProcessInfoV1, used) == offsetof(nvmlProcessInfo_v1_t, usedGpuMemory));
static_assert(sizeof(ProcessInfoV2) == sizeof(nvmlProcessInfo_v2_t));
static_assert(offsetof(ProcessInfoV2, used) == offsetof(nvmlProcessInfo_v2_t, usedGpuMemory));
static_assert(offsetof(ProcessInfoV2, gpu_instance) == offsetof(nvmlProcessInfo_v2_t, gpuInstanceId));
static_assert(offsetof(ProcessInfoV2, compute_instance) == offsetof(nvmlProcessInfo_v2_t, computeInstanceId));

static_assert(sizeof(Utilization) == sizeof(nvmlUtilization_t));
static_assert(offsetof(Utilization, gpu) == offsetof(nvmlUtilization_t, gpu));
static_assert(offsetof(Utilization, memory) == offsetof(nvmlUtilization_t, memory));

static_assert(sizeof(Return) == sizeof(nvmlReturn_t));
static_assert(kSuccess == NVML_SUCCESS && kInsufficientSize == NVML_ERROR_INSUFFICIENT_SIZE);
static_assert(kGpuIsLost == NVML_ERROR_GPU_IS_LOST && kResetRequired == NVML_ERROR_RESET_REQUIRED);
static_assert(kGraphicsClock == NVML_CLOCK_GRAPHICS && kSmClock == NVML_CLOCK_SM &&
              kMemoryClock == NVML_CLOCK_MEM);
static_assert(kGpuTemperature == NVML_TEMPERATURE_GPU);
static_assert(kUuidLength == NVML_DEVICE_UUID_V2_BUFFER_SIZE &&
              kNameLength == NVML_DEVICE_NAME_V2_BUFFER_SIZE);
static_assert(kVersionLength == NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);

static_assert(kGpuIdle == nvmlClocksThrottleReasonGpuIdle);
static_assert(kApplicationsClocksSetting == nvmlClocksThrottleReasonApplicationsClocksSetting);
static_assert(kSwPowerCap == nvmlClocksThrottleReasonSwPowerCap);
static_assert(kHwSlowdown == nvmlClocksThrottleReasonHwSlowdown);
static_assert(kSyncBoost == nvmlClocksThrottleReasonSyncBoost);
static_assert(kSwThermalSlowdown == nvmlClocksThrottleReasonSwThermalSlowdown);
static_assert(kHwThermalSlowdown == nvmlClocksThrottleReasonHwThermalSlowdown);
static_assert(kHwPowerBrakeSlowdown == nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
static_assert(kDisplayClockSetting == nvmlClocksThrottleReasonDisplayClockSetting);

// Each function has the argument types that Headroom passes; all kinds of handles count as equal.
template <class Own, class Theirs>
constexpr bool same_arguments = false;
template <class... Own, class... Theirs>
constexpr bool same_arguments<Return (*)(Own...), nvmlReturn_t (*)(Theirs...)> =
    sizeof...(Own) == sizeof...(Theirs) && ((sizeof(Own) == sizeof(Theirs)) && ...);

static_assert(
    same_arguments<decltype(Functions::encoder_utilization), decltype(&nvmlDeviceGetEncoderUtilization)>);
static_assert(same_arguments<decltype(Functions::clock), decltype(&nvmlDeviceGetClockInfo)>);
static_assert(same_arguments<decltype(Functions::temperature), decltype(&nvmlDeviceGetTemperature)>);
static_assert(same_arguments<decltype(Functions::power), decltype(&nvmlDeviceGetPowerUsage)>);
static_assert(same_arguments<decltype(Functions::power_limit), decltype(&nvmlDeviceGetEnforcedPowerLimit)>);
static_assert(same_arguments<decltype(Functions::mig_mode), decltype(&nvmlDeviceGetMigMode)>);
static_assert(same_arguments<decltype(Functions::mig_count), decltype(&nvmlDeviceGetMaxMigDeviceCount)>);
static_assert(
    same_arguments<decltype(Functions::mig_by_index), decltype(&nvmlDeviceGetMigDeviceHandleByIndex)>);
static_assert(same_arguments<decltype(Functions::gpu_instance), decltype(&nvmlDeviceGetGpuInstanceId)>);
static_assert(same_arguments<decltype(Functions::memory_v2), decltype(&nvmlDeviceGetMemoryInfo_v2)>);
static_assert(same_arguments<decltype(Functions::compute_processes),
                             decltype(&nvmlDeviceGetComputeRunningProcesses_v3)>);

TEST(NvmlLayout, MatchesNvidiasHeader) { EXPECT_EQ(kMemoryV2Version, nvmlMemory_v2); }

}  // namespace
}  // namespace headroom::sources::nvml
