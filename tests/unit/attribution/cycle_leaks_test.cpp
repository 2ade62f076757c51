#include "attribution/cycle_leaks.h"
#include "unit/attribution/analyze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace headroom::attribution {
namespace {
using monitoring::Growth;
using monitoring::growth_of;
using monitoring::SeriesGrowth;

// Tests with many run lengths multiply the length by 1 + 1/64 each time.
constexpr std::int64_t kLengthStep = test::kIsSlowBuild ? 6 : 64;

SeriesGrowth growth(const std::vector<std::int64_t>& bytes) {
  std::vector<std::int64_t> cycles(bytes.size());
  std::iota(cycles.begin(), cycles.end(), 1);
  return growth_of(cycles, bytes, 0);
}

struct Case {
  const char* about;
  std::vector<std::int64_t> bytes;
  Growth growth;
  std::int64_t last_step = 0;
  double per_cycle = 0;
};

TEST(Growth, JudgesSeries) {
  const Case cases[] = {
      {"four cycles are too few", {1, 2, 3, 4}, Growth::unknown},
      {"steady", {10, 20, 30, 40, 50}, Growth::leak, 0, 10},
      {"one outlier", {10, 20, 30, 40, 50, 60, 70, 9000, 90, 100, 110, 120}, Growth::leak, 0, 10},
      // Arenas of runtimes grow for three or four cycles and then stay constant.
      {"warm-up", {10, 20, 30, 40, 40, 40, 40, 40, 40, 40}, Growth::grew_then_stayed, 4},
      // A series that still grew at the fourth of five cycles may grow again at the sixth.
      {"late in a short series", {10, 20, 30, 40, 40}, Growth::grew_late, 4},
      {"late in a long series", {10, 10, 10, 10, 10, 10, 10, 10, 20, 20, 20, 20}, Growth::grew_late, 9},
      {"at the end", {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 20}, Growth::grew_late, 12},
      {"constant", {50, 50, 50, 50, 50, 50}, Growth::none},
      {"shrinks", {90, 80, 70, 60, 50, 40}, Growth::none},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.about);
    const SeriesGrowth result = growth(one.bytes);
    EXPECT_EQ(result.growth, one.growth);
    EXPECT_DOUBLE_EQ(result.per_cycle, one.per_cycle);
    if (one.last_step > 0) {
      EXPECT_EQ(result.last_step, one.last_step);
    }
  }
  EXPECT_EQ(growth({50, 51, 49, 50, 52, 48, 150, 151, 149, 150, 148, 150}).growth, Growth::grew_late);
  EXPECT_EQ(growth({50, 51, 49, 50, 52, 48, 50, 51, 49, 50}).growth, Growth::none) << "noise";
}

// The program keeps its last 30 results, so each step is as small as the one before.
TEST(Growth, ManySmallLateStepsAreNotReportedAsStable) {
  for (const std::int64_t noise : {0, 2}) {
    std::vector<std::int64_t> bytes;
    for (std::int64_t cycle = 2; cycle <= 40; ++cycle)
      bytes.push_back(10 * std::min<std::int64_t>(cycle, 30) + noise * (cycle % 3));
    const SeriesGrowth late = growth(bytes);
    EXPECT_EQ(late.growth, Growth::grew_late) << noise;
    EXPECT_EQ(late.last_step, 29) << noise << ": the 29th point is cycle 30";
  }
}

// The verdict names the last step, however small, or none if noise hides it.
TEST(Growth, ReportsLastStepOfStableSeries) {
  std::vector<std::int64_t> bytes(50, 1000);
  for (std::size_t i = 0; i < 18; ++i) bytes[i] = 100 + 50 * static_cast<std::int64_t>(i);
  const SeriesGrowth stayed = growth(bytes);
  EXPECT_EQ(stayed.growth, Growth::grew_then_stayed);
  EXPECT_EQ(stayed.last_step, 19);
  for (std::size_t i = 20; i < 50; ++i) bytes[i] = 1000 + 40 * static_cast<std::int64_t>(i % 5);
  bytes.back() = 1161;
  const SeriesGrowth noisy = growth(bytes);
  EXPECT_EQ(noisy.growth, Growth::grew_then_stayed);
  EXPECT_EQ(noisy.last_step, 0) << "the last point is above all before it by chance";
}

TEST(Growth, NoiseThatEndsHighIsNotLateGrowth) {
  EXPECT_EQ(growth({50, 54, 46, 50, 58, 42, 50, 54, 46, 50, 59, 60}).growth, Growth::grew_then_stayed);
  EXPECT_EQ(growth({50, 60, 50, 60, 50, 60, 50, 60, 50, 60}).growth, Growth::grew_then_stayed);
  const std::vector<std::int64_t> cycles{1, 2, 3, 4, 5, 6}, bytes{10, 10, 10, 10, 60, 60};
  EXPECT_EQ(growth_of(cycles, bytes, 1000).growth, Growth::none) << "an estimate's noise";
}

// The verdict on `cycles` cycles: at the end of the n-th, `live(n)` bytes of one stack are live.
LeakVerdict watched(std::int64_t cycles, const auto& live) {
  static const test::TemporaryFolder folder;
  static const LayerTree layers = [] {
    test::RecordingBuilder builder(folder / "layers.hrec");
    builder.scope("cycle");
    return LayerTree(recording::Recording::open(builder.finish()).value());
  }();
  CycleWatch watch;
  for (std::int64_t n = 1; n <= cycles; ++n) {
    const std::int64_t bytes = live(n);
    watch.ended(layers, 1, n, bytes, bytes, 1, [&](std::size_t) { return bytes; });
  }
  return watch.verdict(layers, 0, {});
}

// A container that receives 400 bytes in each cycle. Its capacity grows by `factor` whenever they no longer
// fit.
auto container(double factor, double capacity = 400) {
  return [=](std::int64_t cycle) {
    double bytes = capacity;
    while (bytes < 400 * static_cast<double>(cycle)) bytes *= factor;
    return static_cast<std::int64_t>(bytes);
  };
}

TEST(Growth, DoublingContainerIsALeakAtAnyRunLength) {
  for (std::int64_t cycles = 17; cycles < 5200; cycles += 1 + cycles / kLengthStep)
    for (const double capacity : {250.0, 300.0, 400.0, 450.0}) {
      const LeakVerdict verdict = watched(cycles, container(2, capacity));
      ASSERT_EQ(verdict.growth, Growth::leak) << cycles << " cycles, from " << capacity << " bytes";
      // Its capacity is one to two times its content.
      EXPECT_GT(verdict.bytes_per_cycle, 300) << cycles << " cycles, from " << capacity << " bytes";
      EXPECT_LT(verdict.bytes_per_cycle, 900) << cycles << " cycles, from " << capacity << " bytes";
      ASSERT_EQ(verdict.stacks.size(), 1U);
      EXPECT_EQ(verdict.stacks[0].growth, Growth::leak);
    }
}

// Hash tables grow to the next prime of a list, 2.0 to 2.3 times the size.
TEST(Growth, FastGrowingContainerIsNeverReportedAsStable) {
  for (std::int64_t cycles = 17; cycles < 5200; cycles += 1 + cycles / kLengthStep)
    for (const double factor : {1.5, 2.3})
      ASSERT_GE(watched(cycles, container(factor)).growth, Growth::grew_late)
          << cycles << " cycles, times " << factor;
}

TEST(Growth, LateCacheIsNotALeak) {
  const LeakVerdict verdict = watched(5000, [](std::int64_t cycle) { return cycle < 3000 ? 100 : 5100; });
  EXPECT_EQ(verdict.growth, Growth::grew_late);
  EXPECT_EQ(verdict.last_step, 3072) << "the first of those looked at";
  EXPECT_EQ(verdict.late_bytes, 5000);
  EXPECT_EQ(verdict.bytes_per_cycle, 0);
  const LeakVerdict early = watched(5000, [](std::int64_t cycle) { return cycle < 1000 ? 100 : 5100; });
  EXPECT_EQ(early.growth, Growth::grew_then_stayed);
  EXPECT_EQ(early.last_step, 1024);
}

TEST(CycleWatch, LeakSpreadOverManyStacksListsThem) {
  OwnRecording builder({.segment_bytes = 1 << 20});
  // Each cycle keeps 100 bytes that a different stack allocates.
  const auto run = builder.scope("Run");
  for (std::uint64_t i = 1; i <= 24; ++i) {
    builder.enter_scope(run);
    builder.allocate(0x1000 * i, 100, {0x401000 + 0x100 * i});
    builder.enter_scope(0);
  }
  const LeakVerdict verdict = analyze(builder).leaks;
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 100);
  ASSERT_FALSE(verdict.stacks.empty());
  EXPECT_EQ(verdict.stacks.front().late_bytes, 100);
}

// A program that loads once and then runs `cycles` times. Each Run leaks `leak` bytes, and the first runs
// fill a cache.
LeakVerdict verdict_of(int cycles, std::uint64_t leak) {
  OwnRecording builder({.segment_bytes = 1 << 20});
  const auto load = builder.scope("load"), run = builder.scope("Run"), node = builder.scope("conv", run);
  const test::RecordingBuilder::Frames weights{0x401000}, cache{0x402000}, scratch{0x403000}, leaky{0x404000};
  std::uint64_t address = 0x10000;
  builder.enter_scope(load);
  builder.allocate(address += 0x1000, 100'000, weights);
  builder.enter_scope(0);
  for (int i = 0; i < cycles; ++i) {
    builder.enter_scope(run);
    if (i < 3) builder.allocate(address += 0x1000, 5000, cache);
    builder.enter_scope(node);
    builder.allocate(0x8000, 777, scratch);
    builder.release(0x8000);
    if (leak > 0) builder.allocate(address += 0x1000, leak, leaky);
    builder.enter_scope(0);
  }
  return analyze(builder).leaks;
}

TEST(CycleWatch, NamesTheStackThatLeaks) {
  const LeakVerdict verdict = verdict_of(20, 64);
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_EQ(verdict.cycle, "Run");
  EXPECT_EQ(verdict.cycles, 20);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 64);
  ASSERT_EQ(verdict.stacks.size(), 2U);
  EXPECT_EQ(verdict.stacks[0].growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.stacks[0].bytes_per_cycle, 64);
  EXPECT_EQ(verdict.stacks[0].last_bytes, 20 * 64);
  EXPECT_EQ(verdict.stacks[1].growth, Growth::grew_then_stayed) << "the cache";
}

TEST(CycleWatch, ThousandsOfCyclesAreSampled) {
  const LeakVerdict verdict = verdict_of(5000, 16);
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_EQ(verdict.cycles, 5000);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 16);
  EXPECT_LT(verdict.live_bytes.size(), 48U);
  EXPECT_GE(verdict.live_bytes.size(), 20U);
}

TEST(CycleWatch, FewCyclesGiveNoVerdict) {
  for (const int cycles : {4, 5}) {
    const LeakVerdict verdict = verdict_of(cycles, 64);
    EXPECT_EQ(verdict.growth, Growth::unknown);
    EXPECT_TRUE(verdict.cycle.empty());
    EXPECT_EQ(verdict.cycles_left_out, 0);
  }
  EXPECT_EQ(verdict_of(static_cast<int>(kFewestEnds), 64).growth, Growth::leak);
}

// Models that run one after the other or in turns. Each Run allocates and releases memory, and leaks `leak`
// bytes.
struct Model {
  int cycles = 0;
  std::uint64_t leak = 0;
};
LeakVerdict verdict_of(const std::vector<Model>& models, bool in_turns,
                       test::RecordingOptions options = {.segment_bytes = 1 << 20}) {
  OwnRecording builder(options);
  std::vector<std::uint32_t> runs;
  for (std::size_t i = 0; i < models.size(); ++i)
    runs.push_back(builder.scope("run", builder.scope(std::string(1, static_cast<char>('A' + i)))));
  std::uint64_t address = 0x10000;
  const auto run = [&](std::size_t model) {
    builder.enter_scope(runs[model]);
    builder.allocate(0x8000, 10'000, {0x401000});
    builder.release(0x8000);
    if (models[model].leak > 0)
      builder.allocate(address += 0x10000, models[model].leak, {0x402000 + 0x100 * model});
    builder.enter_scope(0);
  };
  int most = 0;
  for (const Model& model : models) most = std::max(most, model.cycles);
  if (in_turns)
    for (int cycle = 0; cycle < most; ++cycle)
      for (std::size_t i = 0; i < models.size(); ++i) run(i);
  else
    for (std::size_t i = 0; i < models.size(); ++i)
      for (int cycle = 0; cycle < models[i].cycles; ++cycle) run(i);
  return analyze(builder).leaks;
}

TEST(CycleWatch, JudgesEveryModelAndReportsTheWorst) {
  const LeakVerdict verdict = verdict_of({{40, 0}, {39, 5000}, {10, 0}}, false);
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_EQ(verdict.cycle, "B/run");
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 5000);
  ASSERT_EQ(verdict.other_cycles.size(), 2U);
  EXPECT_EQ(verdict.other_cycles[0].cycle, "A/run");
  EXPECT_EQ(verdict.other_cycles[0].growth, Growth::none);
  EXPECT_EQ(verdict.other_cycles[1].cycle, "C/run");
  EXPECT_EQ(verdict.other_cycles[1].growth, Growth::none);
  EXPECT_EQ(verdict.cycles_left_out, 0);
}

TEST(CycleWatch, ReportsTwoLeaks) {
  const LeakVerdict verdict = verdict_of({{20, 300}, {20, 5000}}, false);
  EXPECT_EQ(verdict.cycle, "B/run");
  ASSERT_EQ(verdict.other_cycles.size(), 1U);
  EXPECT_EQ(verdict.other_cycles[0].growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.other_cycles[0].bytes_per_cycle, 300);
  EXPECT_FALSE(verdict.other_cycles[0].same_places);
}

TEST(CycleWatch, BlamesModelThatLeaksWhenModelsRunInTurns) {
  const LeakVerdict verdict = verdict_of({{20, 0}, {20, 5000}}, true);
  EXPECT_EQ(verdict.cycle, "B/run");
  ASSERT_EQ(verdict.other_cycles.size(), 1U);
  EXPECT_EQ(verdict.other_cycles[0].growth, Growth::leak) << "the live bytes at its ends grow";
  EXPECT_TRUE(verdict.other_cycles[0].same_places);
}

TEST(CycleWatch, CountsCyclesThatAreNotWatched) {
  const LeakVerdict verdict = verdict_of(std::vector<Model>(10, Model{12, 0}), true);
  EXPECT_EQ(verdict.other_cycles.size(), 7U);
  EXPECT_EQ(verdict.cycles_left_out, 2);
}

TEST(CycleWatch, CycleReplacesRarePhases) {
  OwnRecording builder;
  const auto run = builder.scope("run", builder.scope("net"));
  for (char name = 'a'; name < 'a' + 9; ++name) {
    const auto phase = builder.scope(std::string(1, name));
    for (int i = 0; i < 2; ++i) {
      builder.enter_scope(phase);
      builder.enter_scope(0);
    }
  }
  for (int i = 0; i < 20; ++i) {
    builder.enter_scope(run);
    builder.allocate(0x10000 + 0x1000 * static_cast<std::uint64_t>(i), 100, {0x401000});
    builder.enter_scope(0);
  }
  const LeakVerdict verdict = analyze(builder).leaks;
  EXPECT_EQ(verdict.cycle, "net/run");
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 100);
}

// In sampled recordings, growth of the total below 4 periods counts as noise. A large block is recorded
// exactly.
TEST(CycleWatch, FindsLeakByStackWhenTotalHidesIt) {
  const LeakVerdict verdict = verdict_of({{11, 5000}}, false, {.full = false, .segment_bytes = 1 << 20});
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 5000);
  EXPECT_GT(verdict.smallest_visible, 5000) << "else the whole would have shown it";
}

TEST(CycleWatch, FindsLateGrowthByStackWhenTotalHidesIt) {
  OwnRecording builder({.full = false, .segment_bytes = 1 << 20});
  const auto run = builder.scope("Run");
  for (std::uint64_t i = 1; i <= 20; ++i) {
    builder.enter_scope(run);
    if (i == 14) builder.allocate(0x10000, 5000, {0x401000});
    builder.enter_scope(0);
  }
  const LeakVerdict verdict = analyze(builder).leaks;
  EXPECT_EQ(verdict.growth, Growth::grew_late);
  EXPECT_EQ(verdict.last_step, 14);
  EXPECT_EQ(verdict.late_bytes, 5000);
  EXPECT_EQ(verdict.bytes_per_cycle, 0);
  ASSERT_EQ(verdict.stacks.size(), 1U);
  EXPECT_EQ(verdict.stacks[0].growth, Growth::grew_late);
}

// A session is part of the path of each Run, but no thread is ever directly in it.
TEST(CycleWatch, LayerWithoutDirectEntriesIsNotACycle) {
  OwnRecording builder;
  const auto session = builder.scope("session"), run = builder.scope("Run", session);
  for (int i = 0; i < 8; ++i) {
    builder.enter_scope(run);
    builder.enter_scope(0);
  }
  EXPECT_EQ(analyze(builder).leaks.cycle, "session/Run");
}

}  // namespace
}  // namespace headroom::attribution
