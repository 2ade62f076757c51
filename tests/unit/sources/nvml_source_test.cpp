// Uses NVML through a real dlopen of the fake library (fake_nvml.cpp).

#include <unistd.h>

#include "nvml_test_support.h"
#include "sources/nvml_device.h"
#include "sources/nvml_library.h"
#include "sources/nvml_source.h"
#include "sources_test_support.h"

namespace headroom::sources {
namespace {
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

constexpr unsigned kNone = ~0U;  // of a process outside MIG instances

GpuProcess process_of(std::uint32_t pid, std::optional<Bytes> used) { return {pid, used, {}, {}}; }

SystemSample read(MetricSource& source) {
  SystemSample sample;
  source.read(sample);
  return sample;
}

TEST(NvmlSource, ReadsEveryFigureOfEveryGpu) {
  FakeLibrary fake;
  fake.gpu(1).clock_reasons = 0x4 | 0x40 | 0x1 | 0x1000;
  const auto source = fake.open();
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->describe(), "NVML: 2 GPUs, driver 580.159.04");
  const SystemSample sample = read(*source);
  ASSERT_EQ(sample.gpus.size(), 2U);
  const std::string figures =
      "total=143771MiB used=4000B free=150754815496B reserved=600B gpu%=37 memory%=12 encoder%=5 "
      "decoder%=0 graphics=1980000000 sm=1970000000 memory=3201000000 watts=76.543 most_watts=700 "
      "celsius=31 ";
  EXPECT_EQ(figures_of(sample.gpus[0]),
            "0 name=NVIDIA H200 uuid=GPU-11111111-2222-3333-4444-555555555555 bus=00000000:41:00.0 " +
                figures + "throttled=false mig=false processes");
  EXPECT_EQ(
      figures_of(sample.gpus[1]),
      "1 name=NVIDIA RTX 6000 uuid=GPU-66666666-7777-8888-9999-000000000000 bus=00000001:C1:00.0 " + figures +
          "throttled=true reasons=hardware thermal slowdown, software power cap limits=idle, reason 0x1000 "
          "mig=false processes");
  EXPECT_EQ(sample.throttled, true);
}

TEST(NvmlSource, IdleOrConfiguredClockIsNotThrottling) {
  FakeLibrary fake;
  fake.gpu(0).clock_reasons = 0x1 | 0x2 | 0x100;
  const SystemSample sample = fake.sample();
  EXPECT_EQ(sample.throttled, false);
  EXPECT_THAT(sample.gpus[0].clock_limits,
              ElementsAre("display clock setting", "application clock setting", "idle"));
}

// The load of the busiest GPU; a figure that a Jetson's devfreq set before stays.
TEST(NvmlSource, MachineLoadIsTheBusiestGpu) {
  FakeLibrary fake;
  fake.gpu(1).gpu_percent = 80;
  EXPECT_THAT(fake.sample().gpu_percent, Optional(DoubleEq(80)));
  SystemSample jetson;
  jetson.gpu_percent = 43.1;
  jetson.throttled = true;
  fake.open()->read(jetson);
  EXPECT_THAT(jetson.gpu_percent, Optional(DoubleEq(43.1)));
  EXPECT_EQ(jetson.throttled, true);  // a GPU without throttling does not clear the board's alert
}

constexpr unsigned kAnyMemory = test::kFakeMemory | test::kFakeMemoryV2;
constexpr unsigned kAnyProcesses = test::kFakeCompute | test::kFakeGraphics | test::kFakeMps;

TEST(NvmlSource, RefusedFigureIsAbsentAndOthersRemain) {
  const struct {
    unsigned call;
    bool (*is_absent)(const GpuSample&);
  } cases[] = {
      {kAnyMemory, [](const GpuSample& g) { return !g.memory_total && !g.memory_used && !g.memory_free; }},
      {test::kFakeUtilization, [](const GpuSample& g) { return !g.gpu_percent && !g.memory_percent; }},
      {test::kFakeEncoder, [](const GpuSample& g) { return !g.encoder_percent; }},
      {test::kFakeDecoder, [](const GpuSample& g) { return !g.decoder_percent; }},
      {test::kFakeClock,
       [](const GpuSample& g) { return !g.sm_clock_hz && !g.graphics_clock_hz && !g.memory_clock_hz; }},
      {test::kFakePower, [](const GpuSample& g) { return !g.power_watts; }},
      {test::kFakePowerLimit, [](const GpuSample& g) { return !g.power_limit_watts; }},
      {test::kFakeTemperature, [](const GpuSample& g) { return !g.temperature_celsius; }},
      {test::kFakeClockReasons, [](const GpuSample& g) { return !g.throttled && g.clock_limits.empty(); }},
      {test::kFakeMigMode, [](const GpuSample& g) { return !g.mig_enabled; }},
      {kAnyProcesses, [](const GpuSample& g) { return !g.processes; }},
      {test::kFakeName, [](const GpuSample& g) { return g.name.empty(); }},
  };
  for (const auto& refused : cases)
    for (const unsigned answer : {kNotSupportedAnswer, kNoPermissionAnswer, 999U}) {
      FakeLibrary fake;
      fake.gpu(0).refused = refused.call;
      fake.gpu(0).refusal = answer;
      const SystemSample sample = fake.sample();
      ASSERT_EQ(sample.gpus.size(), 2U);
      SCOPED_TRACE(refused.call);
      for (const auto& other : cases) EXPECT_EQ(other.is_absent(sample.gpus[0]), other.call == refused.call);
      for (const auto& other : cases) EXPECT_FALSE(other.is_absent(sample.gpus[1]));
      EXPECT_FALSE(sample.gpus[0].lost);
    }
}

// DGX Spark and Thor answer with an error because they have no dedicated memory; Orin reports 0 of 0 bytes.
TEST(NvmlSource, IntegratedGpuHasNoMemoryFigures) {
  FakeLibrary fake;
  fake.gpu(0).total = fake.gpu(0).free = fake.gpu(0).used = fake.gpu(0).reserved = 0;
  const GpuSample gpu = fake.sample().gpus[0];
  EXPECT_FALSE(gpu.memory_total || gpu.memory_used || gpu.memory_free || gpu.memory_reserved);
}

TEST(NvmlSource, MemoryVersion1IncludesReservedMemoryInUsed) {
  FakeLibrary fake;
  fake.gpu(0).refused = test::kFakeMemoryV2;
  const GpuSample gpu = fake.sample().gpus[0];
  EXPECT_EQ(gpu.memory_used, Bytes{4600});
  EXPECT_EQ(gpu.memory_reserved, std::nullopt);
}

TEST(NvmlSource, WorksWithADriverOf2015) {
  FakeLibrary fake("fake_nvml_old");
  fake.gpu(0).bus_id = "0000:41:00.0";
  fake.gpu(0).clock_reasons = 0x8;
  fake.gpu(0).compute = {2, {{100, 5000, 0, 0}, {101, 6000, 0, 0}}};
  const SystemSample sample = fake.sample();
  ASSERT_EQ(sample.gpus.size(), 2U);
  EXPECT_EQ(
      figures_of(sample.gpus[0]),
      "0 name=NVIDIA H200 uuid=GPU-11111111-2222-3333-4444-555555555555 bus=0000:41:00.0 total=143771MiB "
      "used=4600B free=150754815496B gpu%=37 memory%=12 graphics=1980000000 sm=1970000000 "
      "memory=3201000000 watts=76.543 most_watts=700 celsius=31 throttled=true reasons=hardware slowdown "
      "processes 100:5000B 101:6000B");
}

TEST(NvmlSource, LostGpuDoesNotAffectOthers) {
  FakeLibrary fake;
  auto source = fake.open();
  fake.gpu(0).refused = ~0U;
  for (const unsigned answer : {kLostAnswer, kResetAnswer}) {
    fake.gpu(0).refusal = answer;
    const SystemSample sample = read(*source);
    ASSERT_EQ(sample.gpus.size(), 2U);
    EXPECT_TRUE(sample.gpus[0].lost);
    EXPECT_EQ(sample.gpus[0].name, "NVIDIA H200");  // known from an earlier sample
    EXPECT_FALSE(sample.gpus[0].memory_total || sample.gpus[0].temperature_celsius);
    EXPECT_EQ(sample.gpus[0].processes, std::nullopt);
    EXPECT_FALSE(sample.gpus[1].lost);
    EXPECT_THAT(sample.gpus[1].temperature_celsius, Optional(DoubleEq(31)));
    EXPECT_THAT(sample.gpu_percent, Optional(DoubleEq(37)));
  }
  fake.gpu(0).refused = 0;
  const SystemSample sample = read(*source);
  EXPECT_FALSE(sample.gpus[0].lost);
  EXPECT_THAT(sample.gpus[0].temperature_celsius, Optional(DoubleEq(31)));
}

TEST(NvmlSource, FindsAGpuThatWasLostAtStart) {
  FakeLibrary fake;
  fake.gpu(0).refused = test::kFakeHandle;
  auto source = fake.open();
  GpuSample only_its_index;
  only_its_index.index = 0;
  fake.gpu(0).refusal = kNoPermissionAnswer;
  EXPECT_EQ(read(*source).gpus[0], only_its_index);
  fake.gpu(0).refusal = kLostAnswer;
  only_its_index.lost = true;
  EXPECT_EQ(read(*source).gpus[0], only_its_index);
  fake.gpu(0).refused = 0;
  EXPECT_EQ(read(*source).gpus[0].name, "NVIDIA H200");
}

// Read from inside the process, for a GPU and for the process's MIG instance.
TEST(OwnGpuMemory, ReportsOnlyThisProcess) {
  const auto own = static_cast<unsigned>(::getpid());
  FakeLibrary fake;
  fake.gpu(0).compute = {2, {{own + 1, 500, ~0U, ~0U}, {own, 6000, ~0U, ~0U}}};
  test::FakeGpu& gpu = fake.gpu(1);
  gpu.mig_mode = 1;
  gpu.refused = kAnyProcesses;
  gpu.instances[0] = 2, gpu.instances[2] = 3;
  fake.gpu(2).uuid = "MIG-aaaaaaaa-0000-0000-0000-000000000001";
  fake.gpu(2).compute = {1, {{own + 1, 6900, 7, 0}}};
  fake.gpu(3).uuid = "MIG-aaaaaaaa-0000-0000-0000-000000000002";
  fake.gpu(3).compute = {1, {{own, 700, 2, 0}}};
  for (const std::size_t instance : {2U, 3U}) fake.gpu(instance).refusal = kNotSupportedAnswer;
  const auto memory = OwnGpuMemory::open(fake.file());
  ASSERT_NE(memory, nullptr);
  const auto shares = memory->read();
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].uuid, "GPU-11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(shares[0].used, Bytes{6000});
  EXPECT_EQ(shares[1].uuid, "MIG-aaaaaaaa-0000-0000-0000-000000000002");
  EXPECT_EQ(shares[1].used, Bytes{700});
}

TEST(NvmlSource, ReadsMigInstancesWithMemoryAndProcesses) {
  FakeLibrary fake;
  fake.state().gpu_count = 1;
  test::FakeGpu& gpu = fake.gpu(0);
  gpu.mig_mode = 1;
  gpu.instances[0] = 2, gpu.instances[3] = 3;  // indexes 1 and 2 are unused
  gpu.refused = test::kFakeUtilization | kAnyProcesses;
  test::FakeGpu& small = fake.gpu(2);
  small.name = "NVIDIA H200 MIG 1g.18gb", small.uuid = "MIG-aaaaaaaa-0000-0000-0000-000000000001";
  small.total = 18000, small.used = 7000, small.reserved = 100, small.free = 10900;
  small.gpu_instance = 7, small.compute_instance = 0;
  small.compute = {1, {{4242, 6900, 7, 0}}};
  test::FakeGpu& large = fake.gpu(3);
  large = small;
  large.uuid = "MIG-aaaaaaaa-0000-0000-0000-000000000002";
  large.gpu_instance = 2;
  large.compute = {2, {{4242, 50, 2, 0}, {4243, ~0ULL, 2, 0}}};

  const SystemSample sample = fake.sample();
  ASSERT_EQ(sample.gpus.size(), 1U);
  const GpuSample& whole = sample.gpus[0];
  EXPECT_EQ(whole.mig_enabled, true);
  EXPECT_EQ(whole.gpu_percent, std::nullopt);  // NVML does not report it under MIG
  ASSERT_EQ(whole.mig_instances.size(), 2U);
  EXPECT_EQ(whole.mig_instances[0],
            (MigInstance{0, "NVIDIA H200 MIG 1g.18gb", "MIG-aaaaaaaa-0000-0000-0000-000000000001", 7, 0,
                         Bytes{18000}, Bytes{7000}, Bytes{10900}, Bytes{100}}));
  EXPECT_EQ(whole.mig_instances[1].index, 3);
  EXPECT_EQ(whole.mig_instances[1].gpu_instance, 2);
  EXPECT_THAT(whole.processes,
              Optional(ElementsAre(GpuProcess{4242, Bytes{6900}, 7, 0}, GpuProcess{4242, Bytes{50}, 2, 0},
                                   GpuProcess{4243, std::nullopt, 2, 0})));
}

TEST(NvmlSource, IsAbsentWithoutAWorkingLibraryOrDevices) {
  for (const auto& [file, why] :
       {std::pair{"/nonexistent/libnvidia-ml.so.1", "/nonexistent/libnvidia-ml.so.1"},
        {"libm.so.6", "libm.so.6 lacks nvmlInit"}}) {
    EXPECT_EQ(open_nvml_source(file), nullptr);
    EXPECT_THAT(nvml::Library::open(file).error().why, HasSubstr(why));
    HostInfo host;
    read_gpu_info(host, file);
    EXPECT_TRUE(host.gpus.empty());
  }
  FakeLibrary fake;
  fake.state().init_result = 9;
  EXPECT_EQ(fake.open(), nullptr);
  EXPECT_EQ(nvml::Library::open(fake.file()).error().why, "nvmlInit failed: Driver Not Loaded");
  EXPECT_EQ(fake.state().shutdowns, 0U);
  fake.state() = {};
  EXPECT_EQ(fake.open(), nullptr) << "no device";
  EXPECT_EQ(fake.state().shutdowns, 1U);
}

TEST(NvidiaDriver, DetectsKernelDriverOrLibraryInPath) {
  for (const char* sign : {"proc/driver/nvidia/version", "dev/nvidiactl", "dev/nvhost-gpu", "dev/dxg"}) {
    const Tree machine;
    EXPECT_FALSE(has_nvidia_driver(machine.root(), "")) << sign;
    machine.file(sign, "");
    EXPECT_TRUE(has_nvidia_driver(machine.root(), "")) << sign;
  }
  const Tree bare, libraries;
  const std::string path = "/nonexistent::" + libraries.root().string();
  EXPECT_FALSE(has_nvidia_driver(bare.root(), path));
  libraries.file("libnvidia-ml.so.1", "");
  EXPECT_TRUE(has_nvidia_driver(bare.root(), path));
}

TEST(GpuInfo, ReadsFactsOfTheGpu) {
  FakeLibrary fake;
  fake.gpu(1).refused = kAnyMemory | test::kFakeMigMode;
  HostInfo host;
  read_gpu_info(host, fake.file());
  EXPECT_EQ(host.gpu_driver, "580.159.04");
  ASSERT_EQ(host.gpus.size(), 2U);
  EXPECT_EQ(host.gpus[0], (HostGpu{0,
                                   "NVIDIA H200",
                                   "GPU-11111111-2222-3333-4444-555555555555",
                                   "00000000:41:00.0",
                                   Bytes{150754820096},
                                   false,
                                   {}}));
  EXPECT_EQ(host.gpus[1].memory_total, std::nullopt);
  EXPECT_EQ(host.gpus[1].mig_enabled, std::nullopt);
}

// The three layouts that drivers use for the same function name, with and without clearing the rest of the
// buffer, in a list that fits the first buffer and in one that does not.
TEST(NvmlProcesses, EveryLayoutGivesTheSameProcesses) {
  for (const unsigned size : {16U, 24U, 32U})
    for (const unsigned clears : {0U, 1U})
      for (const unsigned count : {1U, 3U, 200U}) {
        FakeLibrary fake;
        fake.state().entry_size = size;
        fake.state().clears_the_rest = clears;
        fake.gpu(0).compute.count = count;
        std::vector<GpuProcess> expected;
        for (unsigned i = 0; i < count; ++i) {
          fake.gpu(0).compute.list[i] = {1000 + i, 1ULL << (20 + i % 16), kNone, kNone};
          expected.push_back(process_of(1000 + i, Bytes{1LL << (20 + i % 16)}));
        }
        EXPECT_EQ(fake.sample().gpus[0].processes, expected) << size << " " << clears << " " << count;
      }
}

TEST(NvmlProcesses, MergesTheListsOfAGpu) {
  FakeLibrary fake;
  fake.gpu(0).compute = {1, {{10, 500, kNone, kNone}}};
  fake.gpu(0).graphics = {2, {{10, 700, kNone, kNone}, {11, ~0ULL, kNone, kNone}}};
  fake.gpu(0).mps = {1, {{11, 40, kNone, kNone}}};
  // Drivers of integrated GPUs return entries that are not processes.
  fake.gpu(1).compute = {
      3, {{0, 500, kNone, kNone}, {0xDEADBEEF, 500, kNone, kNone}, {12, ~0ULL, kNone, kNone}}};
  SystemSample sample = fake.sample();
  EXPECT_THAT(sample.gpus[0].processes,
              Optional(ElementsAre(process_of(10, Bytes{700}), process_of(11, Bytes{40}))));
  EXPECT_THAT(sample.gpus[1].processes, Optional(ElementsAre(process_of(12, std::nullopt))));
  // One list is enough.
  fake.gpu(0).refused = test::kFakeGraphics | test::kFakeMps;
  fake.gpu(1).refused = kAnyProcesses;
  sample = fake.sample();
  EXPECT_THAT(sample.gpus[0].processes, Optional(ElementsAre(process_of(10, Bytes{500}))));
  EXPECT_EQ(sample.gpus[1].processes, std::nullopt);
}

}  // namespace
}  // namespace headroom::sources
