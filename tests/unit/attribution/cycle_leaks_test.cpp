#include "attribution/cycle_leaks.h"
#include "unit/attribution/analyze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

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

TEST(Growth, FourCyclesAreTooFew) { EXPECT_EQ(growth({1, 2, 3, 4}).growth, Growth::unknown); }

TEST(Growth, SteadyGrowthIsALeak) {
  const SeriesGrowth five = growth({10, 20, 30, 40, 50});
  EXPECT_EQ(five.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(five.per_cycle, 10);
  EXPECT_EQ(growth({100, 100, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109}).growth, Growth::leak);
}

TEST(Growth, OneOutlierDoesNotHideLeak) {
  const SeriesGrowth result = growth({10, 20, 30, 40, 50, 60, 70, 9000, 90, 100, 110, 120});
  EXPECT_EQ(result.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(result.per_cycle, 10);
}

// Arenas of runtimes grow for three or four cycles and then stay constant.
TEST(Growth, WarmUpIsNotALeak) {
  const SeriesGrowth four = growth({10, 20, 30, 40, 40, 40, 40, 40, 40, 40});
  EXPECT_EQ(four.growth, Growth::grew_then_stayed);
  EXPECT_EQ(four.last_step, 4);
  EXPECT_EQ(growth({10, 50, 50, 50, 50, 50, 50, 50}).growth, Growth::grew_then_stayed);
}

// A series that still grew at the fourth of five cycles may grow again at the sixth.
TEST(Growth, LateGrowthIsNotReportedAsStable) {
  const SeriesGrowth five = growth({10, 20, 30, 40, 40});
  EXPECT_EQ(five.growth, Growth::grew_late);
  EXPECT_EQ(five.last_step, 4);
  EXPECT_EQ(five.per_cycle, 0);
  EXPECT_EQ(growth({10, 10, 10, 10, 10, 10, 10, 10, 20, 20, 20, 20}).last_step, 9);
  EXPECT_EQ(growth({10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 20}).growth, Growth::grew_late);
  EXPECT_EQ(growth({50, 51, 49, 50, 52, 48, 150, 151, 149, 150, 148, 150}).growth, Growth::grew_late);
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

TEST(Growth, NoiseAndShrinkingAreNotGrowth) {
  EXPECT_EQ(growth({50, 50, 50, 50, 50, 50}).growth, Growth::none);
  EXPECT_EQ(growth({50, 51, 49, 50, 52, 48, 50, 51, 49, 50}).growth, Growth::none);
  EXPECT_EQ(growth({90, 80, 70, 60, 50, 40}).growth, Growth::none);
}

TEST(Growth, GrowthBelowNoiseOfEstimateIsIgnored) {
  const std::vector<std::int64_t> cycles{1, 2, 3, 4, 5, 6}, bytes{10, 20, 30, 40, 50, 60};
  EXPECT_EQ(growth_of(cycles, bytes, 1000).growth, Growth::none);
}

// The verdict on `cycles` cycles: at the end of the n-th, `live(n)[i]` bytes of stack i are live.
LeakVerdict watched_stacks(std::int64_t cycles, const auto& live) {
  static const test::TemporaryFolder folder;
  static const LayerTree layers = [] {
    test::RecordingBuilder builder(folder / "layers.hrec");
    builder.scope("cycle");
    return LayerTree(recording::Recording::open(builder.finish()).value());
  }();
  CycleWatch watch;
  for (std::int64_t n = 1; n <= cycles; ++n) {
    const std::vector<std::int64_t> bytes = live(n);
    const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
    watch.ended(layers, 1, n, all, all, bytes.size(), [&](std::size_t i) { return bytes[i]; });
  }
  return watch.verdict(layers, 0, {});
}

LeakVerdict watched(std::int64_t cycles, const auto& live) {
  return watched_stacks(cycles, [&](std::int64_t cycle) { return std::vector<std::int64_t>{live(cycle)}; });
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

// A cache of 256 random keys. The last keys appear late, and each is 1/256 of the cache.
TEST(Growth, CacheWithRareKeysIsNotALeak) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(test::repetitions(60)); ++seed) {
    std::mt19937 random(seed);
    std::vector<bool> known(256);
    std::vector<std::int64_t> live;
    for (int i = 0; i < 5000; ++i) {
      known[random() % known.size()] = true;
      live.push_back(10'000 * std::ranges::count(known, true));
    }
    const LeakVerdict verdict =
        watched(5000, [&](std::int64_t cycle) { return live[static_cast<std::size_t>(cycle - 1)]; });
    EXPECT_NE(verdict.growth, Growth::leak) << seed;
  }
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

// Some megabytes of noise, so that the total shows no growth.
std::int64_t noise(std::int64_t cycle) { return (cycle * 7919 % 13) << 20; }

// Two stacks take turns: each time the container is full, the other stack allocates the new memory and
// releases the old.
TEST(CycleWatch, ContainerGrownByTwoStacksInTurnsIsALeak) {
  for (const double factor : {2.0, 1.5})
    for (std::int64_t cycles = 33; cycles < 5200; cycles += 1 + cycles / kLengthStep) {
      const auto live = [&](std::int64_t cycle) {
        std::vector<std::int64_t> bytes{noise(cycle), 0, 0};
        double capacity = 400;
        std::size_t place = 1;
        for (; capacity < 400 * static_cast<double>(cycle); capacity *= factor) place = 3 - place;
        bytes[place] = static_cast<std::int64_t>(capacity);
        return bytes;
      };
      const LeakVerdict verdict = watched_stacks(cycles, live);
      ASSERT_EQ(verdict.growth, Growth::leak) << cycles << " cycles, times " << factor;
      EXPECT_GT(verdict.bytes_per_cycle, 250) << cycles;
      EXPECT_LT(verdict.bytes_per_cycle, 900) << cycles;
      EXPECT_GT(verdict.last_step, 0);
      ASSERT_FALSE(verdict.stacks.empty());
      EXPECT_EQ(verdict.stacks[0].growth, Growth::leak);
      EXPECT_GT(verdict.stacks[0].last_bytes, 0);
      EXPECT_NE(verdict.stacks[0].stack.index, 0U) << "the noise";
    }
}

// A program that switches between two settings, and buffers that keep their largest size.
TEST(CycleWatch, AlternatingBuffersAreNotALeak) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(test::repetitions(300)); ++seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<std::int64_t>> live;
    std::int64_t setting = 0;
    for (int i = 0; i < 3000; ++i) {
      if (random() % 200 == 0) setting = 1 - setting;
      live.push_back({noise(i), setting * 500'000, (1 - setting) * 700'000});
    }
    const LeakVerdict verdict =
        watched_stacks(3000, [&](std::int64_t cycle) { return live[static_cast<std::size_t>(cycle - 1)]; });
    EXPECT_NE(verdict.growth, Growth::leak) << seed;
  }
}

// The sum of these two stacks looks like a leak in steps. But the bytes that each released at the start were
// not allocated by the other.
TEST(CycleWatch, EmptiedCachesAreNotOneGrowingContainer) {
  const LeakVerdict verdict = watched_stacks(3000, [](std::int64_t cycle) {
    const auto grown = [&](std::initializer_list<std::int64_t> steps) {
      const auto is_reached = [&](std::int64_t step) { return cycle >= step; };
      return (cycle < 70 ? 900 : 0) + 1000 * std::ranges::count_if(steps, is_reached);
    };
    return std::vector<std::int64_t>{noise(cycle), grown({130, 600, 2900}), grown({280, 1400})};
  });
  EXPECT_NE(verdict.growth, Growth::leak);
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
LeakVerdict verdict_of(int cycles, std::uint64_t leak, bool phases = false) {
  OwnRecording builder({.segment_bytes = 1 << 20});
  const auto load = builder.scope("load"), run = builder.scope("Run"), node = builder.scope("conv", run);
  const test::RecordingBuilder::Frames weights{0x401000}, cache{0x402000}, scratch{0x403000}, leaky{0x404000};
  std::uint64_t address = 0x10000;
  builder.enter_scope(load);
  builder.allocate(address += 0x1000, 100'000, weights);
  builder.enter_scope(0);
  if (phases)
    for (const char* name : {"check", "prepare", "tune"}) {
      builder.enter_scope(builder.scope(name));
      builder.enter_scope(0);
    }
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

TEST(CycleWatch, CacheIsNotALeak) {
  const LeakVerdict verdict = verdict_of(20, 0);
  EXPECT_EQ(verdict.growth, Growth::grew_then_stayed);
  ASSERT_EQ(verdict.stacks.size(), 1U);
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

TEST(CycleWatch, PhasesThatRunOnceDoNotHideCycle) { EXPECT_EQ(verdict_of(20, 64, true).cycle, "Run"); }

}  // namespace
}  // namespace headroom::attribution
