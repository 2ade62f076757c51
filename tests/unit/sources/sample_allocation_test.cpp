// A separate program, because it counts its allocations.
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "sources/tegrastats_reader.h"
#include "support/counting_new.h"
#include "support/test_support.h"

namespace headroom::sources {
namespace {

TEST(SampleAllocations, RepeatedSamplesDoNotAllocate) {
  SystemSampler sampler;
  SystemSample sample;
  for (int i = 0; i < 20; ++i) sampler.sample_into(sample);
  const std::int64_t before = test::allocations_so_far();
  for (int i = 0; i < 50; ++i) sampler.sample_into(sample);
  EXPECT_EQ(test::allocations_so_far(), before);
}

TEST(SampleAllocations, TegrastatsLinesDoNotAllocate) {
  SystemSample sample;
  const auto read = [&sample] {
    read_tegrastats_line(
        "RAM 4321/62801MB (lfb 1759x4MB) CPU [0%@729,off] GR3D_FREQ 3%@[0,0] VDD_CPU_SOC_MSS 5mW/5mW",
        sample);
  };
  for (int i = 0; i < 3; ++i) read();
  const std::int64_t before = test::allocations_so_far();
  for (int i = 0; i < 50; ++i) read();
  EXPECT_EQ(test::allocations_so_far(), before);
}

}  // namespace
}  // namespace headroom::sources
