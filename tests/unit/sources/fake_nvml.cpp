#include "fake_nvml.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

// The declarations are written again from NVIDIA's documentation, so that a mistake in Headroom's
// declarations is not repeated here.
namespace {

using namespace headroom::test;

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

// Gives the value unless the test refuses the call.
template <class Value>
unsigned give(void* device, unsigned call, const std::type_identity_t<Value>& value, Value* into) {
  const unsigned code = answer(device, call);
  if (code == kSuccess) *into = value;
  return code;
}

template <class Value>
unsigned give(const std::type_identity_t<Value>& value, Value* into) {
  *into = value;
  return kSuccess;
}

unsigned count_call(unsigned& counter, unsigned result) {
  ++counter;
  return result;
}

unsigned text(const char* value, char* into, unsigned length) {
  if (std::strlen(value) >= length) return kInsufficientSize;
  std::strcpy(into, value);
  return kSuccess;
}

unsigned processes(void* device, unsigned call, FakeProcesses FakeGpu::*of, unsigned entry_size,
                   unsigned* count, void* entries) {
  if (const unsigned code = answer(device, call); code != kSuccess) return code;
  const FakeProcesses& list = gpu(device).*of;
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

unsigned nvmlShutdown() { return count_call(fake.shutdowns, kSuccess); }

unsigned nvmlSystemGetDriverVersion(char* into, unsigned length) { return text("580.159.04", into, length); }

unsigned nvmlDeviceGetName(void* device, char* into, unsigned length) {
  const unsigned code = answer(device, kFakeName);
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
  return give(device, kFakeMemory, {of.total, of.free, of.used + of.reserved}, memory);
}

struct FakeUtilization {
  unsigned gpu, memory;
};
unsigned nvmlDeviceGetUtilizationRates(void* device, FakeUtilization* rates) {
#ifdef FAKE_NVML_THROTTLED
  misbehave_if_told();
#endif
  return give(device, kFakeUtilization, {gpu(device).gpu_percent, gpu(device).memory_percent}, rates);
}

unsigned nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* mhz) {
  const FakeGpu& of = gpu(device);
  if (type > 2) return kInvalidArgument;
  return give(device, kFakeClock, type == 0 ? of.graphics_mhz : type == 1 ? of.sm_mhz : of.memory_mhz, mhz);
}
unsigned nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return give(device, kFakePower, gpu(device).power_milliwatts, milliwatts);
}
unsigned nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  if (sensor != 0) return kInvalidArgument;
  return give(device, kFakeTemperature, gpu(device).temperature, celsius);
}

#ifdef FAKE_NVML_OLD

unsigned nvmlInit() { return count_call(fake.inits, fake.init_result); }
unsigned nvmlDeviceGetCount(unsigned* count) { return give(fake.gpu_count, count); }
unsigned nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
  void* const one = &fake.gpus[index];
  return give(one, kFakeHandle, one, device);
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
  return give(device, kFakePowerLimit, gpu(device).power_limit_milliwatts, milliwatts);
}
unsigned nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return give(device, kFakeClockReasons, gpu(device).clock_reasons, reasons);
}
unsigned nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, void* entries) {
  return processes(device, kFakeCompute, &FakeGpu::compute, 16, count, entries);
}

#else

unsigned nvmlInit_v2() { return count_call(fake.inits, fake.init_result); }
unsigned nvmlDeviceGetCount_v2(unsigned* count) { return give(fake.gpu_count, count); }
unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= fake.gpu_count) return kInvalidArgument;
  void* const one = &fake.gpus[index];
  return give(one, kFakeHandle, one, device);
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
  return give(device, kFakeMemoryV2, {memory->version, of.total, of.reserved, of.free, of.used}, memory);
}
unsigned nvmlDeviceGetEncoderUtilization(void* device, unsigned* percent, unsigned* period_us) {
  *period_us = 167'000;
  return give(device, kFakeEncoder, gpu(device).encoder_percent, percent);
}
unsigned nvmlDeviceGetDecoderUtilization(void* device, unsigned* percent, unsigned* period_us) {
  *period_us = 167'000;
  return give(device, kFakeDecoder, gpu(device).decoder_percent, percent);
}
unsigned nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return give(device, kFakePowerLimit, gpu(device).power_limit_milliwatts, milliwatts);
}
unsigned nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  return give(device, kFakeClockReasons, gpu(device).clock_reasons, reasons);
}
unsigned nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = gpu(device).mig_mode;
  return give(device, kFakeMigMode, gpu(device).mig_mode, current);
}
unsigned nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  return give(gpu(device).mig_mode == 1 ? 7 : 0, count);
}
unsigned nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  if (index >= 4 || gpu(device).instances[index] == 0) return kNotFound;
  return give(&fake.gpus[gpu(device).instances[index]], instance);
}
unsigned nvmlDeviceGetGpuInstanceId(void* device, unsigned* id) { return give(gpu(device).gpu_instance, id); }
unsigned nvmlDeviceGetComputeInstanceId(void* device, unsigned* id) {
  return give(gpu(device).compute_instance, id);
}
unsigned nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void* entries) {
  return processes(device, kFakeCompute, &FakeGpu::compute, fake.entry_size, count, entries);
}
unsigned nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, void* entries) {
  return processes(device, kFakeGraphics, &FakeGpu::graphics, fake.entry_size, count, entries);
}
unsigned nvmlDeviceGetMPSComputeRunningProcesses_v3(void* device, unsigned* count, void* entries) {
  return processes(device, kFakeMps, &FakeGpu::mps, fake.entry_size, count, entries);
}

#endif

}  // extern "C"
