// NVML on the real driver. Skips without an NVIDIA GPU.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "cuda/driver.h"
#include "sources/nvml_source.h"
#include "support/test_support.h"
#include "unit/sources/sources_test_support.h"

namespace headroom::sources {
namespace {
namespace fs = std::filesystem;
using testing::Gt;
using testing::StartsWith;

class NvmlOnAGpu : public testing::Test {
 protected:
  void SetUp() override {
    source_ = open_nvml_source();
    if (source_ == nullptr) GTEST_SKIP() << "no NVIDIA GPU with a driver; skipped";
  }
  SystemSample sample() {
    SystemSample sample;
    source_->read(sample);
    return sample;
  }
  std::unique_ptr<MetricSource> source_;
};

std::set<std::string> entries_of(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  ::pclose(pipe);
  return text;
}

const GpuProcess* own_process(const GpuSample& gpu) {
  if (!gpu.processes) return nullptr;
  for (const GpuProcess& process : *gpu.processes)
    if (process.pid == ::getpid()) return &process;
  return nullptr;
}

TEST_F(NvmlOnAGpu, ReportsIdentityAndConsistentMemory) {
  const SystemSample now = sample();
  ASSERT_FALSE(now.gpus.empty());
  for (const GpuSample& gpu : now.gpus) {
    EXPECT_FALSE(gpu.lost);
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_THAT(gpu.uuid, StartsWith("GPU-"));
    EXPECT_THAT(gpu.pci_bus_id, testing::MatchesRegex("[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\\.[0-9]"));
    EXPECT_LE(gpu.gpu_percent.value_or(0), 100);
    if (gpu.memory_total && gpu.memory_used && gpu.memory_free) {
      const Bytes sum = *gpu.memory_used + *gpu.memory_free + gpu.memory_reserved.value_or(Bytes{});
      EXPECT_EQ(sum, *gpu.memory_total);
    }
  }
}

// Expects both values to be nearly equal, or both to be missing.
void expect_near(std::optional<double> own, std::optional<double> theirs, double tolerance) {
  EXPECT_EQ(own.has_value(), theirs.has_value());
  EXPECT_NEAR(own.value_or(0), theirs.value_or(0), tolerance);
}
void expect_near(std::optional<Bytes> own, std::optional<Bytes> theirs, double tolerance) {
  const auto number = [](std::optional<Bytes> bytes) {
    return bytes ? std::optional<double>(static_cast<double>(bytes->count)) : std::nullopt;
  };
  expect_near(number(own), number(theirs), tolerance);
}

TEST_F(NvmlOnAGpu, AgreesWithNvidiaSmi) {
  const auto printed = text_samples(
      "nvidia-smi", output_of("nvidia-smi --query-gpu=index,name,uuid,pci.bus_id,memory.total,memory.used,"
                              "memory.reserved,power.limit,temperature.gpu --format=csv"));
  if (printed.empty()) GTEST_SKIP() << "nvidia-smi is not installed; skipped";
  const SystemSample& smi = printed.front();
  const SystemSample now = sample();
  ASSERT_EQ(smi.gpus.size(), now.gpus.size());
  for (std::size_t i = 0; i < now.gpus.size(); ++i) {
    const GpuSample &own = now.gpus[i], &theirs = smi.gpus[i];
    EXPECT_EQ(own.index, theirs.index);
    EXPECT_EQ(own.name, theirs.name);
    EXPECT_EQ(own.uuid, theirs.uuid);
    EXPECT_EQ(own.pci_bus_id, theirs.pci_bus_id);
    expect_near(own.memory_total, theirs.memory_total, 1 << 20);  // nvidia-smi prints whole MiB
    expect_near(own.memory_reserved, theirs.memory_reserved, 1 << 20);
    expect_near(own.power_limit_watts, theirs.power_limit_watts, 0.01);
    expect_near(own.temperature_celsius, theirs.temperature_celsius, 5);
  }
  HostInfo host;
  read_gpu_info(host);
  EXPECT_EQ(host.gpu_driver,
            trim(output_of("nvidia-smi --id=0 --query-gpu=driver_version --format=csv,noheader")));
  EXPECT_EQ(host.gpus.size(), now.gpus.size());
}

// NVML runs inside the conductor. It creates no CUDA context, so it uses no GPU memory, and children inherit
// none of its open files.
TEST_F(NvmlOnAGpu, UsesNoGpuMemory) {
  HostInfo host;
  read_gpu_info(host);
  const SystemSample now = sample();
  for (const GpuSample& gpu : now.gpus) EXPECT_EQ(own_process(gpu), nullptr);
  int of_the_driver = 0;
  for (const std::string& name : entries_of("/proc/self/fd")) {
    const int fd = std::atoi(name.c_str());
    std::error_code gone;
    const std::string target = fs::read_symlink("/proc/self/fd/" + name, gone).string();
    if (target.find("nvidia") == std::string::npos) continue;
    ++of_the_driver;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << target;
  }
  EXPECT_GT(of_the_driver, 0);
}

// Allocates GPU memory that is never freed.
bool allocate_on_gpu(std::size_t bytes) {
  const auto driver = cuda::Driver::open();
  if (!driver) return false;
  const cuda::Functions& call = (*driver)->call();
  int device = 0;
  cuda::Opaque context = nullptr;
  cuda::Pointer address = 0;
  return call.cuDeviceGet(&device, 0) == cuda::kSuccess &&
         call.cuDevicePrimaryCtxRetain(&context, device) == cuda::kSuccess &&
         call.cuCtxSetCurrent(context) == cuda::kSuccess &&
         call.cuMemAlloc_v2(&address, bytes) == cuda::kSuccess;
}

TEST_F(NvmlOnAGpu, ReportsTheMemoryOfAProcess) {
  if (!sample().gpus[0].memory_used) GTEST_SKIP() << "this GPU's driver does not report its memory; skipped";
  constexpr std::size_t kFirst = std::size_t{256} << 20, kSecond = std::size_t{512} << 20;
  if (!allocate_on_gpu(kFirst)) GTEST_SKIP() << "CUDA cannot allocate memory on this machine; skipped";
  // The first allocation includes the context, the second only its bytes. CUDA may number the devices
  // differently.
  const SystemSample first = sample();
  std::size_t device = 0;
  while (device < first.gpus.size() && own_process(first.gpus[device]) == nullptr) ++device;
  if (device == first.gpus.size())
    GTEST_SKIP() << "the driver counts processes in another PID namespace; this test is skipped";
  ASSERT_TRUE(allocate_on_gpu(kSecond));
  const SystemSample second = sample();
  const GpuProcess* before = own_process(first.gpus[device]);
  const GpuProcess* after = own_process(second.gpus[device]);
  ASSERT_NE(after, nullptr);
  if (!before->used || !after->used)
    GTEST_SKIP() << "the driver does not report the memory of processes; skipped";
  EXPECT_EQ(after->used->count - before->used->count, static_cast<std::int64_t>(kSecond));
  EXPECT_THAT(before->used->count, Gt(static_cast<std::int64_t>(kFirst)));
  EXPECT_GE(second.gpus[device].memory_used->count - first.gpus[device].memory_used->count,
            static_cast<std::int64_t>(kSecond) - (std::int64_t{64} << 20));
}

}  // namespace
}  // namespace headroom::sources
