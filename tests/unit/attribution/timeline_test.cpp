#include <gtest/gtest.h>

#include <numeric>

#include "attribution/recording_analysis.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::attribution {
namespace {

MemoryTimeline timeline_of(test::RecordingBuilder& builder, std::size_t points, std::size_t layers = 12) {
  auto opened = recording::Recording::open(builder.finish());
  EXPECT_TRUE(opened.has_value());
  return analyze_recording(*opened, {.timeline_points = points, .timeline_layers = layers}).timeline;
}

TEST(Timeline, KeepsLowestAndHighestOfEachPoint) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec");
  const auto layer = builder.scope("conv");
  builder.allocate(0, 0, 0x1000, 100);
  builder.enter_scope(0, 100, layer);
  builder.allocate(0, 110, 0x2000, 900);  // the peak of the second point
  builder.release(0, 120, 0x2000);
  builder.release(0, 130, 0x1000);
  builder.allocate(0, 140, 0x3000, 40);
  builder.allocate(0, 398, 0x4000, 1);
  const MemoryTimeline timeline = timeline_of(builder, 4);  // points of 100 ns
  ASSERT_EQ(timeline.width, Nanoseconds{100});
  ASSERT_EQ(timeline.points.size(), 3U) << "in the third nothing happened";
  EXPECT_EQ(timeline.points[0].start, Nanoseconds{0});
  EXPECT_EQ(timeline.points[0].lowest, 0);
  EXPECT_EQ(timeline.points[0].highest, 100);
  const TimelinePoint& second = timeline.points[1];
  EXPECT_EQ(second.start, Nanoseconds{100});
  EXPECT_EQ(second.lowest, 0);
  EXPECT_EQ(second.highest, 1000);
  EXPECT_EQ(second.last, 40);
  EXPECT_EQ(timeline.points[2].start, Nanoseconds{300});
  EXPECT_EQ(timeline.points[2].highest, 41);
  // Layers of the highest moment: conv 900, outside 100, and no others.
  EXPECT_EQ(timeline.layers, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(second.layers, (std::vector<std::int64_t>{900, 100, 0}));
  EXPECT_EQ(second.quiet_layers, (std::vector<std::int64_t>{40, 0, 0})) << "in the third nothing happened";
  EXPECT_TRUE(timeline.points[0].quiet_layers.empty());
  EXPECT_EQ(timeline.points[2].quiet_layers, (std::vector<std::int64_t>{41, 0, 0})) << "the end";
}

// "Load, run, idle": between two requests a server holds less than the last request needed.
TEST(Timeline, KeepsBytesOfLayersInQuietPeriods) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec");
  const auto weights = builder.scope("weights"), workspace = builder.scope("workspace");
  builder.enter_scope(0, 0, weights);
  builder.allocate(0, 10, 0x1000, 64);
  builder.enter_scope(0, 20, workspace);
  for (std::uint64_t run = 1; run <= 5; ++run) {
    builder.allocate(0, run * 1000, 0x2000, 256);
    builder.release(0, run * 1000 + 1, 0x2000);
  }
  builder.enter_scope(0, 5990, 0);
  const MemoryTimeline timeline = timeline_of(builder, 100);
  ASSERT_EQ(timeline.points.size(), 7U);  // five runs, and scopes at both ends
  for (std::size_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(timeline.points[i].layers, (std::vector<std::int64_t>{256, 64, 0}));
    EXPECT_EQ(timeline.points[i].quiet_layers, (std::vector<std::int64_t>{0, 64, 0}));
  }
}

// Live bytes of small blocks are at most the allocated bytes. The layers are scaled down with their sum.
TEST(Timeline, QuietLayersOfSamplesAddUp) {
  const test::TemporaryFolder folder;
  test::RecordingOptions options;
  options.full = false;
  test::RecordingBuilder builder(folder / "a.hrec", options);
  const auto layer = builder.scope("conv");
  builder.allocate(0, 0, 0x1000, 1 << 20);
  builder.enter_scope(0, 5, layer);
  builder.sample(0, 10, 0x2010, 600, {});
  builder.counters(0, 20, layer, 10, 6000, 0);
  builder.allocate(0, 900, 0x3000, 1 << 20);
  const MemoryTimeline timeline = timeline_of(builder, 10);
  ASSERT_EQ(timeline.points.size(), 2U);
  const TimelinePoint& first = timeline.points.front();
  EXPECT_LT(first.last, (1 << 20) + 7000);
  EXPECT_EQ(std::accumulate(first.quiet_layers.begin(), first.quiet_layers.end(), std::int64_t{0}),
            first.last);
}

TEST(Timeline, IsBoundedAndLosesNoPeak) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec");
  std::vector<std::uint32_t> layers;
  for (int i = 0; i < 40; ++i) layers.push_back(builder.scope("layer" + std::to_string(i)));
  std::int64_t live = 0, peak = 0;
  std::uint64_t time = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    builder.enter_scope(0, time, layers[i % layers.size()]);
    builder.allocate(0, time += 7, 0x1000 * (1 + i), 10 + i % 97);
    live += 10 + static_cast<std::int64_t>(i % 97);
    peak = std::max(peak, live);
    if (i >= 100) {
      builder.release(0, time += 3, 0x1000 * (1 + i - 100));
      live -= 10 + static_cast<std::int64_t>((i - 100) % 97);
    }
  }
  const MemoryTimeline timeline = timeline_of(builder, 50, 5);
  EXPECT_LE(timeline.points.size(), 50U);
  EXPECT_GE(timeline.points.size(), 25U);
  EXPECT_EQ(timeline.layers.size(), 5U);
  std::int64_t highest = 0;
  for (const TimelinePoint& point : timeline.points) {
    highest = std::max(highest, point.highest);
    EXPECT_LE(point.lowest, point.last);
    EXPECT_LE(point.last, point.highest);
    EXPECT_EQ(std::accumulate(point.layers.begin(), point.layers.end(), std::int64_t{0}), point.highest);
    const std::vector<std::int64_t>& quiet = point.quiet_layers;
    if (!quiet.empty()) {
      EXPECT_EQ(std::accumulate(quiet.begin(), quiet.end(), std::int64_t{0}), point.last);
    }
  }
  EXPECT_EQ(highest, peak);
  EXPECT_EQ(timeline.points.back().last, live);
}

// The header of a killed process may have a shorter duration than its events.
TEST(Timeline, MergesPointsWhenRecordingIsLonger) {
  const test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec");
  builder.allocate(0, 0, 0x1000, 1);
  auto recording = recording::Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value());
  const LayerLedger layers(*recording);
  TimelineBuilder timeline(4, Nanoseconds{0});
  std::int64_t live = 0;
  for (std::int64_t time = 0; time < 1000; ++time) {
    if (timeline.is_over({time})) timeline.begin_point({time}, {live, live, live}, 0, layers);
    live = time == 500 ? 77 : time % 3;
    timeline.changed({live, live, live});
  }
  const MemoryTimeline result = timeline.finish(live, 0, layers, 3);
  ASSERT_LE(result.points.size(), 4U);
  EXPECT_EQ(result.width, Nanoseconds{256});
  ASSERT_EQ(result.points.size(), 4U);
  EXPECT_EQ(result.points[1].highest, 77);
  EXPECT_EQ(result.points[0].highest, 2);
  EXPECT_EQ(result.points[3].start, Nanoseconds{768});
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(result.points[i].quiet_layers.empty()) << "no point is missing after " << i;
}

}  // namespace
}  // namespace headroom::attribution
