// The peak of sampled recordings: programs with known true peak, recorded with many seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "attribution/group_accounts.h"
#include "attribution/live_map.h"
#include "attribution/sampled_peak.h"
#include "recording/sample_weights.h"
#include "unit/attribution/analyze.h"

namespace headroom::attribution {
namespace {

constexpr std::uint64_t kPeriod = 64 << 10, kBlock = 100;
constexpr std::int64_t kSeeds = 300;

// Mean and standard deviation of estimates, one per seed.
struct Estimates {
  std::vector<double> values;
  double mean() const { return std::accumulate(values.begin(), values.end(), 0.0) / count(); }
  double deviation() const {
    double sum = 0;
    for (const double value : values) sum += (value - mean()) * (value - mean());
    return std::sqrt(sum / (count() - 1));
  }
  double error_of_mean() const { return deviation() / std::sqrt(count()); }
  double count() const { return static_cast<double>(values.size()); }
};

// A program in which block i is allocated at time `born(i)` and released at `died(i)`. Negative: never.
struct Program {
  std::int64_t blocks = 0;
  std::function<std::int64_t(std::int64_t)> born, died;
};

// 20,000 blocks (2 MB) are live. New blocks replace the oldest ones, 20 times each.
Program steady_churn() {
  return {400'000, [](std::int64_t i) { return 10 * i + 10; },
          [](std::int64_t i) { return i + 20'000 < 400'000 ? 10 * (i + 20'000) + 5 : -1; }};
}
constexpr std::int64_t kSteadyBytes = 20'000 * static_cast<std::int64_t>(kBlock);

// Records the program as the tracer does: a block is sampled with probability 1 − e^(−size/period). Stack 1
// allocates even blocks in layer 1, stack 2 odd blocks in layer 2.
// `counted_besides`: more blocks that were allocated and released without a sample. They keep the bound on
// estimates out of reach.
recording::Recording record(const Program& program, std::uint64_t seed, const std::filesystem::path& path,
                            std::uint64_t counted_besides = 0) {
  test::RecordingBuilder builder(path, {.full = false,
                                        .sample_period_bytes = kPeriod,
                                        .started_realtime_ns = 1'790'000'000'000'000'000 + seed});
  const std::uint32_t layers[] = {builder.scope("even"), builder.scope("odd")};
  std::mt19937_64 random(seed);
  std::geometric_distribution<std::int64_t> not_chosen(
      -std::expm1(-static_cast<double>(kBlock) / static_cast<double>(kPeriod)));
  struct Event {
    std::int64_t time, block;
    bool is_release;
  };
  std::vector<Event> events;
  for (std::int64_t i = not_chosen(random); i < program.blocks; i += 1 + not_chosen(random)) {
    events.push_back({program.born(i), i, false});
    if (program.died(i) >= 0) events.push_back({program.died(i), i, true});
  }
  std::ranges::sort(events, {}, &Event::time);
  const auto sampled = static_cast<std::uint64_t>(
      std::ranges::count_if(events, [](const Event& event) { return !event.is_release; }));
  for (const Event& event : events) {
    const auto time = static_cast<std::uint64_t>(event.time), block = static_cast<std::uint64_t>(event.block);
    const std::uint64_t address = 0x10000 + 128 * block;
    if (event.is_release) {
      builder.release(0, time, address);
      continue;
    }
    builder.enter_scope(0, time, layers[block % 2]);
    builder.sample(0, time, address, kBlock, {0x400000 + 16 * (block % 2), 0x500000});
  }
  const std::uint64_t counted = static_cast<std::uint64_t>(program.blocks) - sampled + counted_besides;
  builder.counters(0, static_cast<std::uint64_t>(program.born(program.blocks - 1)) + 1'000'000, 0, counted,
                   counted * kBlock, 0);
  auto opened = recording::Recording::open(builder.finish());
  if (!opened) throw std::runtime_error(opened.error().sentence());
  return std::move(*opened);
}

// The largest estimate of live bytes over all events, computed from all samples.
std::int64_t largest_estimate(recording::Recording& recording) {
  std::map<std::uint64_t, std::int64_t> live;
  std::int64_t bytes = 0, most = 0;
  recording.for_each_event([&](const MemoryEvent& event) {
    LiveBlock block;
    if (event.kind == MemoryEventKind::release) bytes -= std::exchange(live[event.address], 0);
    if (is_allocation(event) && make_block(event, 0, 0, block)) bytes += live[event.address] = block.bytes();
    most = std::max(most, bytes);
  });
  return most;
}

TEST(SampledPeak, IsUnbiasedForSteadyChurn) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  const test::TemporaryFolder folder;
  Estimates peak, blocks, even, even_own, stack, before;
  int within_one = 0, within_two = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    recording::Recording recording = record(steady_churn(), seed, folder / "a.hrec");
    const RecordingAnalysis analysis = analyze_recording(recording, {});
    peak.values.push_back(static_cast<double>(analysis.peak_bytes.value));
    blocks.values.push_back(static_cast<double>(analysis.peak_blocks.value));
    even.values.push_back(static_cast<double>(analysis.layers[1].live.peak_bytes));
    even_own.values.push_back(static_cast<double>(analysis.layers[1].peak_allocated));
    stack.values.push_back(static_cast<double>(analysis.stacks[1].live.peak_bytes));
    before.values.push_back(static_cast<double>(largest_estimate(recording)));
    const double wrong = std::abs(peak.values.back() - static_cast<double>(kSteadyBytes));
    within_one += wrong <= *analysis.peak_bytes.standard_error;
    within_two += wrong <= 2 * *analysis.peak_bytes.standard_error;
  }
  const auto truth = static_cast<double>(kSteadyBytes);
  EXPECT_LT(std::abs(peak.mean() - truth), 4 * peak.error_of_mean()) << peak.mean();
  EXPECT_LT(peak.error_of_mean(), 0.02 * truth) << "so many seeds are a sharp test";
  EXPECT_LT(std::abs(blocks.mean() - truth / kBlock), 4 * blocks.error_of_mean()) << blocks.mean();
  EXPECT_LT(std::abs(even.mean() - truth / 2), 4 * even.error_of_mean()) << even.mean();
  EXPECT_LT(std::abs(stack.mean() - truth / 2), 4 * stack.error_of_mean()) << stack.mean();
  // Half of the samples equal a sampling with twice the period: √(N·2P).
  EXPECT_NEAR(peak.deviation(), std::sqrt(truth * 2 * kPeriod), 0.1 * truth / 4);
  EXPECT_GT(within_one, 0.6 * kSeeds);
  EXPECT_GT(within_two, 0.92 * kSeeds);
  // A layer's own peak is at least its bytes at the heap's peak. This adds a small bias, far below that of
  // the largest estimate.
  EXPECT_LT(even_own.mean(), 1.2 * truth / 2);
  // The largest estimate would fail all checks above.
  EXPECT_GT(before.mean() - truth, 20 * before.error_of_mean()) << before.mean();
  EXPECT_GT(before.mean(), 1.3 * truth);
}

// Every figure at the peak comes from the same samples at the same moment.
TEST(SampledPeak, AllViewsOfThePeakAgree) {
  const test::TemporaryFolder folder;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    recording::Recording recording = record(steady_churn(), seed, folder / "a.hrec");
    const RecordingAnalysis analysis = analyze_recording(recording, {.timeline_points = 100});
    const std::int64_t peak = analysis.peak_bytes.value;
    ASSERT_GT(peak, 0);
    std::int64_t layers = 0, stacks = 0, threads = 0, classes = 0, blocks = 0;
    for (const LayerFigures& layer : analysis.layers) {
      layers += layer.self.peak_bytes;
      blocks += layer.self.peak_blocks;
      EXPECT_GE(layer.peak_allocated, layer.live.peak_bytes);
      EXPECT_GE(layer.peak_reserved, layer.peak_allocated);
      EXPECT_LE(layer.process_peak, peak);
    }
    for (const StackFigures& stack : analysis.stacks) stacks += stack.live.peak_bytes;
    for (const ThreadFigures& thread : analysis.threads) threads += thread.live.peak_bytes;
    for (const SizeClassFigures& size_class : analysis.size_classes) classes += size_class.live.peak_bytes;
    EXPECT_EQ(layers, peak);
    EXPECT_EQ(stacks, peak);
    EXPECT_EQ(threads, peak);
    EXPECT_EQ(classes, peak);
    EXPECT_EQ(blocks, analysis.peak_blocks.value);

    EXPECT_EQ(find_sampled_peak(recording).value().moment, analysis.peak_time);
    const LiveMoment moment = live_at(recording, {&analysis.peak_time, 1}, SampleHalf::b).front();
    EXPECT_EQ(moment.bytes, peak);
    EXPECT_EQ(moment.blocks, analysis.peak_blocks.value);
    const GroupAccounts groups = account_groups(recording, {[](LayerIndex layer, StackId) { return layer; }});
    for (std::size_t i = 0; i < groups.figures[0].size(); ++i) {
      EXPECT_EQ(groups.figures[0][i].live.peak_bytes, analysis.layers[i].self.peak_bytes);
      EXPECT_EQ(groups.figures[0][i].live.end_bytes, analysis.layers[i].self.end_bytes);
    }
    const auto& points = analysis.timeline.points;
    const auto point = std::ranges::find_if(points, [&](const TimelinePoint& p) {
      return p.start <= analysis.peak_time && analysis.peak_time < p.start + analysis.timeline.width;
    });
    ASSERT_NE(point, points.end());
    EXPECT_EQ(point->highest, peak);
    EXPECT_EQ(std::accumulate(point->layers.begin(), point->layers.end(), std::int64_t{0}), peak);
    EXPECT_EQ(points.back().last, analysis.leaked_bytes.value) << "the end is computed from all samples";
  }
}

TEST(SampledPeak, IsExactForLargeBlocks) {
  OwnRecording builder({.full = false});
  builder.allocate(0, 10, 0x10000, 8000);
  builder.allocate(0, 20, 0x20000, 9000);
  builder.release(0, 30, 0x10000);
  builder.counters(0, 40, 0, 100, 3000, 100);
  recording::Recording recording = open_built(builder);
  EXPECT_FALSE(find_sampled_peak(recording).has_value());
  const RecordingAnalysis analysis = analyze_recording(recording, {});
  EXPECT_EQ(analysis.peak_bytes.value, 17'000);
  EXPECT_EQ(analysis.peak_time, Nanoseconds{20});
}

TEST(SampledPeak, LargeBlocksCountInBothHalves) {
  OwnRecording builder({.full = false});
  builder.sample(0, 10, 0x10000, 16);
  builder.allocate(0, 20, 0x20000, 900'000'000);
  builder.release(0, 60, 0x20000);
  builder.counters(0, 70, 0, 100'000, 10'000'000, 100'000);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(analysis.peak_time, Nanoseconds{40}) << "the middle of the time when it was there";
  const std::int64_t small = analysis.peak_bytes.value - 900'000'000;
  EXPECT_TRUE(small == 0 || small == 2 * (512 << 10) + 16 || small == 2 * (512 << 10) + 8) << small;
}

// A program that allocates 80 blocks of 100 bytes and keeps half of them. A sample represents 64 KiB, but
// the estimate is at most the 8000 counted bytes. Rows, the timeline and groups agree.
TEST(SampledPeak, IsAtMostAllocatedBytes) {
  const test::TemporaryFolder folder;
  int told = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    test::RecordingBuilder builder(
        folder / "a.hrec", {.full = false, .sample_period_bytes = kPeriod, .started_realtime_ns = seed});
    const auto layer = builder.scope("layer");
    builder.allocate(0, 10, 0x10000, 20'000);
    builder.enter_scope(0, 20, layer);
    builder.sample(0, 30, 0x20000, kBlock, {0x400000, 0x500000});
    builder.sample(0, 40, 0x30000, kBlock, {0x400010, 0x500000});
    builder.counters(0, 50, layer, 78, 78 * kBlock, 40);
    recording::Recording recording = open_built(builder);
    const RecordingAnalysis analysis = analyze_recording(recording, {});
    EXPECT_LE(analysis.peak_bytes.value, 28'000);
    EXPECT_LE(analysis.peak_blocks.value, 81);
    EXPECT_LE(analysis.leaked_bytes.value, 28'000);
    EXPECT_GE(analysis.leaked_bytes.value, 27'990) << "both samples say far more: rounded down";
    EXPECT_EQ(analysis.peak_bytes.standard_error, 8000.0) << "the truth may lie anywhere below";
    EXPECT_EQ(analysis.leaked_bytes.standard_error, 8000.0);
    EXPECT_EQ(analysis.peak_bytes.at_most, 28'000);
    EXPECT_EQ(analysis.leaked_bytes.at_most, 28'000);
    told += analysis.peak_bytes.value > 20'000;

    for (const LayerFigures& figures : analysis.layers) {
      EXPECT_LE(figures.peak_allocated, 28'000);
      EXPECT_LE(figures.process_peak, 28'000);
      EXPECT_LE(figures.live.peak_standard_error().value_or(0), 8000);
    }
    for (const StackFigures& stack : analysis.stacks) {
      EXPECT_LE(stack.most_bytes, 28'000);
      EXPECT_LE(stack.live.end_standard_error().value_or(0), 8000);
    }
    EXPECT_LE(analysis.threads[0].live.end_standard_error().value_or(0), 8000);

    for (const TimelinePoint& point : analysis.timeline.points) {
      EXPECT_LE(point.highest, 28'000);
      EXPECT_LE(point.last, 28'000);
      EXPECT_EQ(std::accumulate(point.layers.begin(), point.layers.end(), std::int64_t{0}), point.highest);
      for (const std::int64_t bytes : point.layers) EXPECT_GE(bytes, 0);
    }
    EXPECT_EQ(live_at(recording, {&analysis.peak_time, 1}, SampleHalf::b).front().bytes,
              analysis.peak_bytes.value);
    EXPECT_EQ(live_at(recording, {&analysis.duration, 1}).front().bytes, analysis.leaked_bytes.value);
    const GroupAccounts groups = account_groups(recording, {[](LayerIndex, StackId) { return 0U; }});
    EXPECT_EQ(groups.figures[0][0].live.peak_bytes, analysis.peak_bytes.value);
    EXPECT_EQ(groups.figures[0][0].live.end_bytes, analysis.leaked_bytes.value);
  }
  EXPECT_GT(told, 5) << "half B had a sample in some";
}

// The bound at a moment includes the counter record that covers the moment, but no later one.
TEST(SampledPeak, BoundCountsAllocationsUntilTheMoment) {
  OwnRecording builder({.full = false});
  builder.sample(0, 10, 0x10000, 7);
  builder.counters(0, 100, 0, 10, 1000, 0);
  builder.counters(1, 150, 0, 3, 300, 0);  // another thread, counted since the start
  builder.counters(0, 200, 0, 20, 2000, 0);
  builder.sample(0, 250, 0x20000, 70);
  builder.counters(0, 300, 0, 40, 4000, 0);
  recording::Recording recording = open_built(builder);
  const Nanoseconds times[] = {{5}, {99}, {160}, {250}, {1000}};
  const std::vector<SmallAllocations> until = small_allocations_until(recording, times);
  ASSERT_EQ(until.size(), 5U);
  EXPECT_EQ(until[0].bytes, 1300);
  EXPECT_EQ(until[1].bytes, 1307);
  EXPECT_EQ(until[2].bytes, 3307);
  EXPECT_EQ(until[3].bytes, 7377);
  EXPECT_EQ(until[4].bytes, 7377);
  EXPECT_EQ(until[4].blocks, 75);
}

// A block is sampled with probability p. It is then in half A and in half B with q = 1 − √(1 − p) each, and
// in both with q²/p. So the halves are independent.
TEST(SampleHalf, HalvesAreIndependent) {
  for (const double chance : {1e-4, 0.1, 0.6321, 0.99}) {
    const double q = 1 - std::sqrt(1 - chance);
    constexpr int kRecords = 200'000;
    int counts[3] = {};
    for (std::uint64_t i = 0; i < kRecords; ++i)
      ++counts[static_cast<int>(recording::half_of_sample(
          recording::chance_alone(chance),
          recording::coin_of_record(recording::mixed(1), i / 5000, 7 * (i % 5000))))];
    const double error = 4 * 0.5 / std::sqrt(kRecords);
    EXPECT_NEAR(static_cast<double>(counts[0]) / kRecords, q * q / chance, error);
    EXPECT_NEAR(static_cast<double>(counts[1]) / kRecords, (q - q * q) / chance, error);
    EXPECT_NEAR(static_cast<double>(counts[2]) / kRecords, (q - q * q) / chance, error);
  }
}

// The example of docs/recording-format.md, for readers in other languages.
TEST(SampleHalf, CoinsMatchFormatDocument) {
  EXPECT_DOUBLE_EQ(recording::coin_of_record(recording::mixed(1'790'000'000'000'000'000), 3, 70),
                   0.44519991596917297);
}

}  // namespace
}  // namespace headroom::attribution
