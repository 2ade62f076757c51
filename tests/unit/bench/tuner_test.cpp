#include "bench/conductor/setup_phase.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headroom::bench {
namespace {

// A fake runtime with known speed and memory for each setting.
struct FakeRuntime {
  std::int64_t memory_limit = 1'000'000'000;
  int calls = 0;

  Result<TuneTrial> operator()(const RuntimeSettings& settings) {
    ++calls;
    TuneTrial trial;
    trial.settings = settings;
    std::int64_t peak = 300'000'000;
    double time = 10e6 / (settings.threads == 0 ? 2 : std::min(settings.threads, 4));
    if (!settings.arena) {
      peak -= 100'000'000;
      time *= 1.02;  // a little slower, much smaller
    }
    if (settings.graph_level != 99) time *= 1.5;
    if (!settings.prepacking) {
      peak -= 20'000'000;
      time *= 1.3;
    }
    trial.peak = Bytes{peak};
    trial.p50 = Nanoseconds{static_cast<std::int64_t>(time)};
    if (peak > memory_limit) {
      trial.status = ModelStatus::oom;
      trial.p50.reset();
    }
    return trial;
  }
};

TEST(SearchSettings, FindsTheFastestAndTheSmallestNearlyAsFast) {
  FakeRuntime runtime;
  const auto found = search_settings(RuntimeSettings{}, 4, std::ref(runtime));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fastest.threads, 4);
  EXPECT_EQ(found->fastest.graph_level, 99);
  EXPECT_TRUE(found->fastest.arena);
  ASSERT_TRUE(found->smallest);
  EXPECT_FALSE(found->smallest->arena) << "2 % slower and 100 MB smaller";
  EXPECT_TRUE(found->smallest->prepacking) << "30 % slower is not nearly as fast";
  EXPECT_EQ(runtime.calls, static_cast<int>(found->trials.size()));
  EXPECT_LE(runtime.calls, 14);
  for (std::size_t i = 0; i < found->trials.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(found->trials[j].settings, found->trials[i].settings);
}

TEST(SearchSettings, TriesGpuSettingsAndCountsGpuMemory) {
  RuntimeSettings start;
  start.device = "cuda:0";
  const auto attempt = [](const RuntimeSettings& settings) -> Result<TuneTrial> {
    TuneTrial trial;
    trial.settings = settings;
    std::int64_t memory = 500'000'000;
    double time = 5e6;
    if (settings.conv_search != ConvSearch::exhaustive) time *= 1.03, memory -= 300'000'000;
    if (settings.conv_search == ConvSearch::standard) time *= 2;
    if (settings.device_graph) time *= 0.8;
    trial.peak = Bytes{900'000'000 - memory};  // resident memory changes the other way, and must not count
    trial.gpu_peak = Bytes{memory};
    trial.p50 = Nanoseconds{static_cast<std::int64_t>(time)};
    return trial;
  };
  const auto found = search_settings(start, 16, attempt);
  ASSERT_TRUE(found);
  for (const TuneTrial& trial : found->trials) EXPECT_EQ(trial.settings.threads, 0);
  EXPECT_LE(found->trials.size(), 7U);
  EXPECT_TRUE(found->fastest.device_graph);
  EXPECT_EQ(found->fastest.conv_search, ConvSearch::exhaustive);
}

// A watched limit does not stop a trial, but settings that exceeded it must not be chosen.
TEST(SearchSettings, ListsButNeverChoosesSettingsThatDoNotFit) {
  for (const bool is_watched : {false, true}) {
    FakeRuntime runtime;
    const Bytes limit{250'000'000};  // fits only without an arena
    if (!is_watched) runtime.memory_limit = limit.count;
    const auto found =
        search_settings(RuntimeSettings{}, 2, [&](const RuntimeSettings& settings) -> Result<TuneTrial> {
          auto trial = runtime(settings);
          if (is_watched) trial->within_limit = *trial->peak <= limit;
          return trial;
        });
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->fastest.arena);
    ASSERT_TRUE(found->smallest);
    EXPECT_FALSE(found->smallest->arena);
    EXPECT_EQ(std::any_of(found->trials.begin(), found->trials.end(),
                          [](const TuneTrial& trial) { return trial.status == ModelStatus::oom; }),
              !is_watched);
  }
}

TEST(SearchSettings, KeepsTheStartWhenNothingFits) {
  FakeRuntime runtime;
  runtime.memory_limit = 1;
  const auto found = search_settings(RuntimeSettings{}, 8, std::ref(runtime));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fastest, RuntimeSettings{});
  EXPECT_FALSE(found->smallest);
  EXPECT_LE(runtime.calls, 6) << "more threads need no less memory";
}

// The main case of --tune: the model does not fit with default settings.
TEST(SearchSettings, TriesSavingsFirstWhenTheStartDoesNotFit) {
  std::vector<RuntimeSettings> tried;
  const auto attempt = [&](const RuntimeSettings& settings) -> Result<TuneTrial> {
    tried.push_back(settings);
    TuneTrial trial;
    trial.settings = settings;
    // It fits only without a memory pattern and without prepacking.
    if (settings.memory_pattern || settings.prepacking) {
      trial.status = ModelStatus::oom;
      return trial;
    }
    trial.peak = Bytes{100'000'000};
    trial.p50 = Nanoseconds{settings.arena ? 10'000'000 : 11'000'000};
    return trial;
  };
  const auto found = search_settings(RuntimeSettings{}, 2, attempt);
  ASSERT_TRUE(found);
  EXPECT_FALSE(tried.at(1).memory_pattern) << "the first trial after the start saves memory";
  EXPECT_FALSE(found->fastest.memory_pattern);
  EXPECT_FALSE(found->fastest.prepacking);
  EXPECT_TRUE(found->fastest.arena) << "a saving that is not needed is undone";
  EXPECT_LE(tried.size(), 18U);
}

// LibTorch has neither an arena nor a memory pattern, and rejects these settings.
TEST(SearchSettings, SkipsASavingThatTheRuntimeRejects) {
  const auto attempt = [&](const RuntimeSettings& settings) -> Result<TuneTrial> {
    TuneTrial trial;
    trial.settings = settings;
    if (!settings.memory_pattern || !settings.arena ||
        settings.arena_extend != ArenaExtend::next_power_of_two) {
      trial.status = ModelStatus::failed;
      trial.error = "there is no such setting";
    } else if (settings.prepacking) {
      trial.status = ModelStatus::oom;
    } else {
      trial.peak = Bytes{100'000'000};
      trial.p50 = Nanoseconds{10'000'000};
    }
    return trial;
  };
  const auto found = search_settings(RuntimeSettings{}, 1, attempt);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->fastest.prepacking);
  EXPECT_TRUE(found->fastest.memory_pattern);
  EXPECT_TRUE(found->fastest.arena);
}

TEST(SearchSettings, StopsAfterThreeTimeoutsOrAnError) {
  int calls = 0;
  const auto hang = [&](const RuntimeSettings& settings) -> Result<TuneTrial> {
    ++calls;
    TuneTrial trial;
    trial.settings = settings;
    trial.status = ModelStatus::timeout;
    return trial;
  };
  const auto found = search_settings(RuntimeSettings{}, 8, hang);
  ASSERT_TRUE(found);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(found->fastest, RuntimeSettings{});
  const auto stop = [](const RuntimeSettings&) -> Result<TuneTrial> {
    return failure("stopped", "interrupted");
  };
  EXPECT_FALSE(search_settings(RuntimeSettings{}, 2, stop));
}

}  // namespace
}  // namespace headroom::bench
