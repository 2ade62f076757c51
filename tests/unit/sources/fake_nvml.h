// A fake libnvidia-ml.so.1 that answers from a table filled by the test. fake_nvml has the functions of
// current drivers. fake_nvml_old has those of a driver of 2015 (version 1 of everything, no MIG).
// fake_nvml_throttled starts with one GPU.
#pragma once

#include <cstdint>

namespace headroom::test {

// Calls that can be refused, one bit each.
enum FakeCall : unsigned {
  kFakeMemory = 1U << 0U,
  kFakeMemoryV2 = 1U << 1U,
  kFakeUtilization = 1U << 2U,
  kFakeEncoder = 1U << 3U,
  kFakeDecoder = 1U << 4U,
  kFakeClock = 1U << 5U,
  kFakePower = 1U << 6U,
  kFakePowerLimit = 1U << 7U,
  kFakeTemperature = 1U << 8U,
  kFakeClockReasons = 1U << 9U,
  kFakeMigMode = 1U << 10U,
  kFakeCompute = 1U << 11U,
  kFakeGraphics = 1U << 12U,
  kFakeMps = 1U << 13U,
  kFakeHandle = 1U << 14U,
  kFakeName = 1U << 15U,
};

struct FakeProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

struct FakeProcesses {
  unsigned count;
  FakeProcess list[200];
};

struct FakeGpu {
  const char* name;
  const char* uuid;
  const char* bus_id;
  unsigned long long total, reserved, free, used;
  unsigned gpu_percent, memory_percent, encoder_percent, decoder_percent;
  unsigned graphics_mhz, sm_mhz, memory_mhz;
  unsigned power_milliwatts, power_limit_milliwatts, temperature;
  unsigned long long clock_reasons;
  unsigned mig_mode;
  unsigned instances[4];  // indexes of the fake GPUs that act as MIG instances; 0: none
  unsigned gpu_instance, compute_instance;
  FakeProcesses compute, graphics, mps;
  unsigned refused;  // bits of FakeCall
  unsigned refusal;  // the error code of a refused call
};

struct FakeNvml {
  unsigned init_result;
  unsigned gpu_count;
  unsigned entry_size;       // size of a process entry: 16, 24 or 32
  unsigned clears_the_rest;  // 1: fills the unused rest of the buffer with zeros
  unsigned inits, shutdowns;
  FakeGpu gpus[8];
};

}  // namespace headroom::test

extern "C" headroom::test::FakeNvml* fake_nvml_state();
