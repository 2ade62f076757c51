// Memory meters: this process, and a GPU of the tests' fake driver.
#include "pool/memory_meter.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "support/test_support.h"

namespace headroom::pool {
namespace {

using ::testing::HasSubstr;

TEST(ProcessMeter, MeasuresCurrentBytesAndTemporaryPeak) {
#if defined(HEADROOM_SANITIZED) || defined(HEADROOM_EMULATED)
  GTEST_SKIP() << "sanitizers and emulators allocate memory, too";
#endif
  const MemoryMeter meter = process_meter();
  const auto before = meter.read();
  const auto peak = meter.watch_peak();
  {
    std::vector<char> moment(64 << 20);
    std::memset(moment.data(), 1, moment.size());
  }
  std::vector<char> kept(16 << 20);
  std::memset(kept.data(), 1, kept.size());
  EXPECT_NEAR(static_cast<double>((*meter.read() - *before).count), 16 << 20, 2 << 20);
  EXPECT_GE(peak(), mebibytes(62));
}

class DeviceMeter : public ::testing::Test {
 protected:
  void SetUp() override {
    // Once loaded, the fake driver is found by its SONAME when code opens libcuda.so.1.
    if (::dlopen(test::built_path("tests/fake_cuda/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
      FAIL() << ::dlerror();
  }
  // Allocates and frees 100 MiB.
  static void expect_followed(const MemoryMeter& meter) {
    const cuda::Functions& call = (*cuda::Driver::open())->call();
    cuda::Opaque context = nullptr;
    ASSERT_EQ(call.cuDevicePrimaryCtxRetain(&context, 0), cuda::kSuccess);
    ASSERT_EQ(call.cuCtxSetCurrent(context), cuda::kSuccess);
    const auto before = meter.read();
    ASSERT_TRUE(before);
    const auto peak = meter.watch_peak ? meter.watch_peak() : nullptr;
    cuda::Pointer block = 0;
    ASSERT_EQ(call.cuMemAlloc_v2(&block, 100 << 20), cuda::kSuccess);
    EXPECT_EQ(*meter.read() - *before, mebibytes(100));
    ASSERT_EQ(call.cuMemFree_v2(block), cuda::kSuccess);
    EXPECT_EQ(*meter.read(), *before);
    if (peak) {
      EXPECT_EQ(peak(), mebibytes(100));
    }
  }
};

TEST_F(DeviceMeter, ReadsUsedMemoryFromTheDriver) {
  const auto meter = device_meter("cuda:0");
  ASSERT_TRUE(meter) << meter.error().sentence();
  expect_followed(*meter);
}

TEST_F(DeviceMeter, ReportsInvalidDevices) {
  for (const char* wrong : {"cpu", "tpu:0", ""}) EXPECT_FALSE(device_meter(wrong)) << wrong;
  const auto absent = device_meter("cuda:99");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().sentence(), HasSubstr("99"));
}

// Runs in a process with the preload library; also with a GPU that shares the machine's memory.
TEST_F(DeviceMeter, ReadsTheLedgerIfPreloaded) {
#if defined(HEADROOM_SANITIZED)
  GTEST_SKIP() << "sanitizers do not work with the preload library";
#elif defined(HEADROOM_EMULATED)
  GTEST_SKIP() << "under an emulator a program cannot restart itself with a preloaded library";
#endif
  if (std::getenv("HEADROOM_TEST_OF_LEDGER") != nullptr) {
    const auto meter = device_meter("cuda:0");
    ASSERT_TRUE(meter) << meter.error().sentence();
    ASSERT_TRUE(meter->watch_peak) << "the ledger records a peak";
    return expect_followed(*meter);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("HEADROOM_TEST_OF_LEDGER", "1", 1);
    ::setenv("LD_PRELOAD", HEADROOM_PRELOAD, 1);
    ::setenv("HEADROOM_TRACE_OPTIONS", "ledger=1", 1);
    ::execl("/proc/self/exe", "memory_meter_test", "--gtest_filter=DeviceMeter.ReadsTheLedger*", nullptr);
    ::_exit(3);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DeviceMeter, RejectsSharedMemoryWithoutLedger) {
  ::setenv("FAKE_CUDA_INTEGRATED", "1", 1);
  const auto meter = device_meter("cuda:0");
  ::unsetenv("FAKE_CUDA_INTEGRATED");
  ASSERT_FALSE(meter);
  EXPECT_THAT(meter.error().sentence(), HasSubstr("headroom run"));
}

}  // namespace
}  // namespace headroom::pool
