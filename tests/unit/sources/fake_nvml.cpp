#include "fake_nvml.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The declarations are written again from NVIDIA's documentation, so that a mistake in Headroom's
// declarations is not repeated here.
namespace {

using headroom::test::FakeGpu;
using headroom::test::FakeProcesses;

enum : unsigned {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotFound = 6,
  kInsufficientSize = 7,
  kVersionMismatch = 25
};

headroom::test::FakeNvml fake;

FakeGpu& gpu(void* device) { return *static_cast<FakeGpu*>(device); }

#ifdef FAKE_NVML_THROTTLED
// One GPU that is throttled by its power cap. FAKE_NVML_CRASH=3: the driver crashes at the third reading.
// FAKE_NVML_HANG=3: it hangs there.
void misbehave_if_told() {
  static int asked = 0;
  ++asked;
  const char* crash = std::getenv("FAKE_NVML_CRASH");
  const char* hang = std::getenv("FAKE_NVML_HANG");
  if (crash != nullptr && asked == std::atoi(crash)) std::raise(SIGSEGV);
  if (hang != nullptr && asked >= std::atoi(hang))
    for (;;) ::pause();
}

__attribute__((constructor)) void begin() {
  fake.gpu_count = 1;
  fake.entry_size = 24;
  FakeGpu& one = fake.gpus[0];
  one.name = "Throttled GPU", one.uuid = "GPU-0", one.bus_id = "00000000:01:00.0";
  one.total = 8ULL << 30, one.used = 1ULL << 30, one.free = 7ULL << 30;
  one.gpu_percent = 50, one.power_milliwatts = 70'000, one.clock_reasons = 0x4;
}
#endif

// The result of a call that the test may refuse.
unsigned answer(void* device, unsigned call) {
  if (device == nullptr) return kInvalidArgument;
  return (gpu(device).refused & call) != 0 ? gpu(device).refusal : kSuccess;
}

unsigned number(void* device, unsigned call, unsigned value, unsigned* into) {
  const unsigned code = answer(device, call);
  if (code == kSuccess) *into = value;
  return code;
}

unsigned text(const char* value, char* into, unsigned length) {
  if (std::strlen(value) >= length) return kInsufficientSize;
  std::strcpy(into, value);
  return kSuccess;
}

unsigned processes(const FakeProcesses& list, unsigned entry_size, unsigned* count, void* entries) {
  const unsigned room = *count;
  *count = list.count;
  if (list.count > room) return kInsufficientSize;
  auto* bytes = static_cast<unsigned char*>(entries);
  if (fake.clears_the_rest == 1) std::memset(bytes, 0, std::size_t{room} * entry_size);
  for (unsigned i = 0; i < list.count; ++i) {
    const auto& process = list.list[i];
    unsigned char entry[32] = {};
    std::memcpy(entry, &process.pid, 4);
    std::memcpy(entry + 8, &process.used, 8);
    std::memcpy(entry + 16, &process.gpu_instance, 4);
    std::memcpy(entry + 20, &process.compute_instance, 4);
    std::memcpy(bytes + std::size_t{i} * entry_size, entry, entry_size);
  }
  return kSuccess;
}

}  // namespace

extern "C" {

headroom::test::FakeNvml* fake_nvml_state() { return &fake; }

const char* nvmlErrorString(unsigned code) { return code == 9 ? "Driver Not Loaded" : "Some Error"; }

unsigned nvmlShutdown() {
  ++fake.shutdowns;
  return kSuccess;
}

unsigned nvmlSystemGetDriverVersion(char* into, unsigned length) { return text("580.159.04", into, length); }

unsigned nvmlDeviceGetName(void* device, char* into, unsigned length) {
  const unsigned code = answer(device, headroom::test::kFakeName);
  return code == kSuccess ? text(gpu(device).name, into, length) : code;
}
unsigned nvmlDeviceGetUUID(void* device, char* into, unsigned length) {
  return text(gpu(device).uuid, into, length);
}

struct FakeMemoryV1 {
  unsigned long long total, free, used;
};
unsigned nvmlDeviceGetMemoryInfo(void* device, FakeMemoryV1* memory) {
  const FakeGpu& of = gpu(device);
  const unsigned code = answer(device, headroom::test::kFakeMemory);
  if (code == kSuccess) *memory = {of.total, of.free, of.used + of.reserved};
  return code;
}

struct FakeUtilization {
  unsigned gpu, memory;
};
unsigned nvmlDeviceGetUtilizationRates(void* device, FakeUtilization* rates) {
#ifdef FAKE_NVML_THROTTLED
  misbehave_if_told();
#endif
  const unsigned code = answer(device, headroom::test::kFakeUtilization);
  if (code == kSuccess) *rates = {gpu(device).gpu_percent, gpu(device).memory_percent};
  return code;
}

unsigned nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* mhz) {
  const FakeGpu& of = gpu(device);
  if (type > 2) return kInvalidArgument;
  return number(device, headroom::test::kFakeClock,
                type == 0   ? of.graphics_mhz
                : type == 1 ? of.sm_mhz
                            : of.memory_mhz,
                mhz);
}
unsigned nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return number(device, headroom::test::kFakePower, gpu(device).power_milliwatts, milliwatts);
}
unsigned nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  if (sensor != 0) return kInvalidArgument;
  return number(device, headroom::test::kFakeTemperature, gpu(device).temperature, celsius);
}

#ifdef FAKE_NVML_OLD

unsigned nvmlInit() {
  ++fake.inits;
  return fake.init_result;
}
unsigned nvmlDeviceGetCount(unsigned* count) {
  *count = fake.gpu_count;
  return kSuccess;
}
unsigned nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
  *device = &fake.gpus[index];
  return answer(*device, headroom::test::kFakeHandle);
}
struct FakePciV1 {  // the version without the long bus id
  char bus_id[16];
  unsigned domain, bus, device, device_id;
};
unsigned nvmlDeviceGetPciInfo(void* device, FakePciV1* pci) {
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "%s", gpu(device).bus_id);
  return kSuccess;
}
unsigned nvmlDeviceGetPowerManagementLimit(void* device, unsigned* milliwatts) {
  return number(device, headroom::test::kFakePowerLimit, gpu(device).power_limit_milliwatts, milliwatts);
}
unsigned nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = gpu(device).clock_reasons;
  return answer(device, headroom::test::kFakeClockReasons);
}
unsigned nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, void* entries) {
  const unsigned code = answer(device, headroom::test::kFakeCompute);
  return code == kSuccess ? processes(gpu(device).compute, 16, count, entries) : code;
}

#else

unsigned nvmlInit_v2() {
  ++fake.inits;
  return fake.init_result;
}
unsigned nvmlDeviceGetCount_v2(unsigned* count) {
  *count = fake.gpu_count;
  return kSuccess;
}
unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= fake.gpu_count) return kInvalidArgument;
  const unsigned code = answer(&fake.gpus[index], headroom::test::kFakeHandle);
  if (code == kSuccess) *device = &fake.gpus[index];
  return code;
}
struct FakePciV3 {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
unsigned nvmlDeviceGetPciInfo_v3(void* device, FakePciV3* pci) {
  std::snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "%s", gpu(device).bus_id + 4);
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "%s", gpu(device).bus_id);
  return kSuccess;
}
struct FakeMemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
unsigned nvmlDeviceGetMemoryInfo_v2(void* device, FakeMemoryV2* memory) {
  if (memory->version != 0x02000028) return kVersionMismatch;
  const FakeGpu& of = gpu(device);
  const unsigned code = answer(device, headroom::test::kFakeMemoryV2);
  if (code == kSuccess) *memory = {memory->version, of.total, of.reserved, of.free, of.used};
  return code;
}
unsigned nvmlDeviceGetEncoderUtilization(void* device, unsigned* percent, unsigned* period_us) {
  *period_us = 167'000;
  return number(device, headroom::test::kFakeEncoder, gpu(device).encoder_percent, percent);
}
unsigned nvmlDeviceGetDecoderUtilization(void* device, unsigned* percent, unsigned* period_us) {
  *period_us = 167'000;
  return number(device, headroom::test::kFakeDecoder, gpu(device).decoder_percent, percent);
}
unsigned nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return number(device, headroom::test::kFakePowerLimit, gpu(device).power_limit_milliwatts, milliwatts);
}
unsigned nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  const unsigned code = answer(device, headroom::test::kFakeClockReasons);
  if (code == kSuccess) *reasons = gpu(device).clock_reasons;
  return code;
}
unsigned nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = gpu(device).mig_mode;
  return number(device, headroom::test::kFakeMigMode, gpu(device).mig_mode, current);
}
unsigned nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  *count = gpu(device).mig_mode == 1 ? 7 : 0;
  return kSuccess;
}
unsigned nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  if (index >= 4 || gpu(device).instances[index] == 0) return kNotFound;
  *instance = &fake.gpus[gpu(device).instances[index]];
  return kSuccess;
}
unsigned nvmlDeviceGetGpuInstanceId(void* device, unsigned* id) {
  *id = gpu(device).gpu_instance;
  return kSuccess;
}
unsigned nvmlDeviceGetComputeInstanceId(void* device, unsigned* id) {
  *id = gpu(device).compute_instance;
  return kSuccess;
}
unsigned nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void* entries) {
  const unsigned code = answer(device, headroom::test::kFakeCompute);
  return code == kSuccess ? processes(gpu(device).compute, fake.entry_size, count, entries) : code;
}
unsigned nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, void* entries) {
  const unsigned code = answer(device, headroom::test::kFakeGraphics);
  return code == kSuccess ? processes(gpu(device).graphics, fake.entry_size, count, entries) : code;
}
unsigned nvmlDeviceGetMPSComputeRunningProcesses_v3(void* device, unsigned* count, void* entries) {
  const unsigned code = answer(device, headroom::test::kFakeMps);
  return code == kSuccess ? processes(gpu(device).mps, fake.entry_size, count, entries) : code;
}

#endif

}  // extern "C"
