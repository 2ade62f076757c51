#include "exporters/stack_accounts.h"

#include "attribution/recording_analysis.h"
#include "export_fixture.h"

namespace headroom::exporters {
namespace {

using enum Metric;

TEST(StackAccounts, HasEachMetricByLayerAndStack) {
  ExportFixture fixture(fill_two_layers);
  const StackAccounts result = account_stacks(fixture.recording());
  ASSERT_EQ(result.accounts.size(), 3U);
  EXPECT_TRUE(result.has_temporary);
  EXPECT_EQ(result.layers[result.accounts[1].layer].path, "model/conv");
  const auto bytes = [&](std::size_t i) {
    const StackAccount& account = result.accounts[i];
    return std::vector{account[peak].bytes, account[leaked].bytes, account[temporary].bytes,
                       account[allocated].bytes};
  };
  EXPECT_EQ(bytes(0), (std::vector<std::int64_t>{1000, 1000, 0, 1000}));
  EXPECT_EQ(bytes(1), (std::vector<std::int64_t>{4000, 0, 0, 4000}));
  EXPECT_EQ(bytes(2), (std::vector<std::int64_t>{0, 0, 500, 500}));
  EXPECT_EQ(result.accounts[2].stack, StackId{});
}

void expect_the_sums_of_the_analysis(ExportFixture& fixture, std::string_view context) {
  const auto analysis = attribution::analyze_recording(fixture.recording(), {});
  const StackAccounts result = account_stacks(fixture.recording());
  std::array<Amount, kMetrics> sums{};
  for (const StackAccount& account : result.accounts)
    for (std::size_t i = 0; i < kMetrics; ++i) {
      sums[i].blocks += account.amounts[i].blocks;
      sums[i].bytes += account.amounts[i].bytes;
    }
  EXPECT_EQ(sums[0].bytes, analysis.peak_bytes.value) << context;
  EXPECT_EQ(sums[0].blocks, analysis.peak_blocks.value) << context;
  EXPECT_EQ(sums[1].bytes, analysis.leaked_bytes.value) << context;
  EXPECT_EQ(sums[2].blocks, analysis.temporary.value_or(0)) << context;
  std::int64_t allocations = 0, allocated_bytes = 0;
  for (const auto& stack : analysis.stacks) {
    allocations += stack.allocations;
    allocated_bytes += stack.allocated_bytes;
  }
  EXPECT_EQ(sums[3].blocks, allocations) << context;
  EXPECT_EQ(sums[3].bytes, allocated_bytes) << context;
}

TEST(StackAccounts, SumsEqualTheAnalysis) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 2000); });
    expect_the_sums_of_the_analysis(fixture, "seed " + std::to_string(seed));
  }
}

TEST(StackAccounts, SumsEqualTheAnalysisOfSamples) {
  test::RecordingOptions sampled;
  sampled.full = false;
  ExportFixture fixture(
      [](test::RecordingBuilder& builder) {
        for (std::uint64_t i = 0; i < 50; ++i) {
          builder.sample(0, 10 * i, 0x1000 + 0x100 * i, 64 + i, {1 + i % 3});
          if (i % 3 == 0) builder.release(0, 10 * i + 1, 0x1000 + 0x100 * i);
        }
        builder.counters(0, 1000, 0, 100000, 6400000, 90000);
      },
      sampled);
  expect_the_sums_of_the_analysis(fixture, "samples");
  EXPECT_FALSE(account_stacks(fixture.recording()).has_temporary);
}

}  // namespace
}  // namespace headroom::exporters
