// A fake libnvidia-ml.so.1 that reports the memory in use of the fake driver's devices.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
struct Memory {
  unsigned long long total, free, used;
};
struct UsingProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
std::atomic<unsigned> asked{0};
}  // namespace

// How often a program asked for the memory of processes.
EXPORTED unsigned fake_nvml_asked() { return asked; }

EXPORTED int nvmlInit_v2() { return 0; }
EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strncmp(uuid, "GPU-", 4) != 0) return 6;
  const char first[] = {uuid[4], uuid[5], 0};  // all bytes of the fake UUID are 0x10 plus the device's number
  *device = reinterpret_cast<void*>(std::strtoull(first, nullptr, 16) - 0x10 + 1);
  return 0;
}
EXPORTED int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return 9;
  const auto used = reinterpret_cast<std::uint64_t (*)(unsigned)>(dlsym(driver, "fake_cuda_used"));
  *memory = {std::uint64_t{64} << 30, 0,
             used(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device) - 1))};
  return 0;
}

// Also reports another process, which uses a third of the device's memory. Takes 2 ms, as a real query may.
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, UsingProcess* processes) {
  ++asked;
  Memory memory{};
  if (const int result = nvmlDeviceGetMemoryInfo(device, &memory); result != 0) return result;
  if (*count < 2) return 7;
  *count = 2;
  processes[0] = {1, memory.total / 3, ~0u, ~0u};
  processes[1] = {static_cast<unsigned>(getpid()), memory.used, ~0u, ~0u};
  usleep(2000);
  return 0;
}
