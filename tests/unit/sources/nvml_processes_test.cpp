#include "sources/nvml_processes.h"

#include "nvml_test_support.h"

namespace headroom::sources {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

constexpr unsigned kNoInstance = ~0U;

TEST(NvmlProcesses, DetectsTheLayoutFromWrittenBytes) {
  for (const std::size_t size : {16U, 24U, 32U})
    for (const std::size_t count : {1U, 2U, 7U, 61U}) {
      EXPECT_EQ(nvml::entry_size(size * count, count, 61, 24), size) << count;
      EXPECT_EQ(nvml::entry_size(size * 61, count, 61, 24), size)
          << count;  // the driver cleared the whole buffer
    }
  EXPECT_EQ(nvml::entry_size(77, 2, 61, 24), 24U);
  EXPECT_EQ(nvml::entry_size(0, 0, 61, 16), 24U);  // an empty list has no layout
}

// The three layouts that drivers use for the same function name, with and without clearing the rest of the
// buffer.
TEST(NvmlProcesses, EveryLayoutGivesTheSameProcesses) {
  for (const unsigned size : {16U, 24U, 32U})
    for (const unsigned clears : {0U, 1U}) {
      FakeLibrary fake;
      fake.state().entry_size = size;
      fake.state().clears_the_rest = clears;
      fake.gpu(0).compute = {3,
                             {{10, 1000, kNoInstance, kNoInstance},
                              {11, 2000, kNoInstance, kNoInstance},
                              {12, 3000, kNoInstance, kNoInstance}}};
      EXPECT_THAT(fake.sample().gpus[0].processes, Optional(ElementsAre(GpuProcess{10, Bytes{1000}, {}, {}},
                                                                        GpuProcess{11, Bytes{2000}, {}, {}},
                                                                        GpuProcess{12, Bytes{3000}, {}, {}})))
          << size << " " << clears;
    }
}

TEST(NvmlProcesses, GrowsTheBufferForLongLists) {
  for (const unsigned size : {16U, 24U, 32U}) {
    FakeLibrary fake;
    fake.state().entry_size = size;
    fake.gpu(0).compute.count = 200;
    for (unsigned i = 0; i < 200; ++i)
      fake.gpu(0).compute.list[i] = {1000 + i, 1ULL << (20 + i % 16), kNoInstance, kNoInstance};
    const auto processes = fake.sample().gpus[0].processes;
    ASSERT_TRUE(processes);
    ASSERT_EQ(processes->size(), 200U);
    for (unsigned i = 0; i < 200; ++i) {
      EXPECT_EQ((*processes)[i].pid, 1000 + i);
      EXPECT_EQ((*processes)[i].used, Bytes{1LL << (20 + i % 16)});
    }
  }
}

TEST(NvmlProcesses, MergesComputeAndGraphicsEntriesOfAProcess) {
  FakeLibrary fake;
  fake.gpu(0).compute = {1, {{10, 500, kNoInstance, kNoInstance}}};
  fake.gpu(0).graphics = {2, {{10, 700, kNoInstance, kNoInstance}, {11, ~0ULL, kNoInstance, kNoInstance}}};
  fake.gpu(0).mps = {1, {{11, 40, kNoInstance, kNoInstance}}};
  EXPECT_THAT(fake.sample().gpus[0].processes,
              Optional(ElementsAre(GpuProcess{10, Bytes{700}, {}, {}}, GpuProcess{11, Bytes{40}, {}, {}})));
}

// Drivers of integrated GPUs return such entries.
TEST(NvmlProcesses, DropsEntriesThatAreNotProcesses) {
  FakeLibrary fake;
  fake.gpu(0).compute = {3,
                         {{0, 500, kNoInstance, kNoInstance},
                          {0xDEADBEEF, 500, kNoInstance, kNoInstance},
                          {12, ~0ULL, kNoInstance, kNoInstance}}};
  EXPECT_THAT(fake.sample().gpus[0].processes, Optional(ElementsAre(GpuProcess{12, std::nullopt, {}, {}})));
}

TEST(NvmlProcesses, NeedsAtLeastOneList) {
  FakeLibrary fake;
  fake.gpu(0).refused = test::kFakeGraphics | test::kFakeMps;
  fake.gpu(1).refused = test::kFakeCompute | test::kFakeGraphics | test::kFakeMps;
  const SystemSample sample = fake.sample();
  EXPECT_THAT(sample.gpus[0].processes, Optional(IsEmpty()));
  EXPECT_EQ(sample.gpus[1].processes, std::nullopt);
}

}  // namespace
}  // namespace headroom::sources
