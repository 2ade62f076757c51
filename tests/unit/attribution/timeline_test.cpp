#include <gtest/gtest.h>
#include <numeric>

#include "unit/attribution/analyze.h"

namespace headroom::attribution {

namespace {

MemoryTimeline timeline_of(test::RecordingBuilder& builder, std::size_t points, std::size_t layers = 12) {
  return analyze(builder, {.timeline_points = points, .timeline_layers = layers}).timeline;
}

TEST(Timeline, KeepsLowestAndHighestOfEachPoint) {
  OwnRecording builder;
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
  OwnRecording builder;
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

TEST(Timeline, IsBoundedAndLosesNoPeak) {
  OwnRecording builder;
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
  OwnRecording builder;
  builder.allocate(0, 0, 0x1000, 1);
  recording::Recording recording = open_built(builder);
  const LayerLedger layers(recording);
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

// Figures of layers, calculated by hand.

using test::RecordingBuilder;

const LayerFigures& layer_of(const RecordingAnalysis& analysis, const std::string& path) {
  for (const LayerFigures& layer : analysis.layers)
    if (layer.path == path) return layer;
  ADD_FAILURE() << "there is no layer " << path;
  return analysis.layers[0];
}

// The tracer ends a runtime's profile from time to time. That is not a cycle of the program, although its
// scope is an outer one and repeats often. The interrupted layer was entered only once.
TEST(Layers, TracerScopeIsNotACycleAndDoesNotEndLayers) {
  OwnRecording builder;
  const auto session = builder.scope("model", 0, recording::ScopeSource::session);
  const auto run = builder.scope("run", session, recording::ScopeSource::run);
  const auto own = builder.scope(recording::kTracerScope);
  std::uint64_t address = 0x1000;
  for (int cycle = 0; cycle < 12; ++cycle) {
    builder.enter_scope(run);
    builder.allocate(address += 0x1000, 100);
    builder.enter_scope(own);
    builder.allocate(address += 0x1000, 8);
    builder.release(address);
    builder.enter_scope(run);
    builder.allocate(address += 0x1000, 100);
    builder.enter_scope(0);
    for (int more = 0; more < 2; ++more) {
      builder.enter_scope(own);
      builder.enter_scope(0);
    }
  }
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "model").entries, 12);
  EXPECT_EQ(layer_of(analysis, "model/run").entries, 12);
  EXPECT_EQ(layer_of(analysis, recording::kTracerScope).entries, 36);
  EXPECT_EQ(layer_of(analysis, "model/run").duration, Nanoseconds{12 * 4}) << "without the tracer's own work";
  EXPECT_EQ(analysis.leaks.cycle, "model/run");
  EXPECT_EQ(analysis.leaks.cycles, 12);
  EXPECT_EQ(analysis.leaks.growth, monitoring::Growth::leak);
  EXPECT_DOUBLE_EQ(analysis.leaks.bytes_per_cycle, 200);
}

TEST(Layers, OuterLayerIncludesInnerAllocations) {
  OwnRecording builder;
  const auto run = builder.scope("Run");
  const auto conv = builder.scope("conv", run);
  builder.allocate(0, 5, 0x9000, 10);  // outside: 10 live
  builder.enter_scope(0, 10, run);
  builder.allocate(0, 20, 0x1000, 100);  // 110
  builder.enter_scope(0, 30, conv);
  builder.allocate(0, 40, 0x2000, 1000);  // 1110: the peak
  builder.release(0, 50, 0x2000);
  builder.enter_scope(0, 60, run);
  builder.release(0, 70, 0x1000);
  builder.enter_scope(0, 80, 0);
  builder.enter_scope(0, 90, conv);  // directly into the inner layer: both layers are entered
  builder.allocate(0, 95, 0x3000, 24);
  builder.enter_scope(0, 100, 0);
  const RecordingAnalysis analysis = analyze(builder);

  const LayerFigures& outer = layer_of(analysis, "Run");
  EXPECT_EQ(outer.entries, 2);
  EXPECT_EQ(outer.duration, Nanoseconds{80});
  EXPECT_EQ(outer.allocations, 3);
  EXPECT_EQ(outer.releases, 2);
  EXPECT_EQ(outer.allocated_bytes, 1124);
  EXPECT_EQ(outer.peak_allocated, 1100);
  // Chunks of 112 and 1008 bytes.
  EXPECT_EQ(outer.peak_reserved, 1120);
  // Unused bytes after each allocation: 12 of 112, 20 of 1120, 8 of 32.
  EXPECT_DOUBLE_EQ(outer.average_fragmentation, 40.0 / 1264);
  EXPECT_EQ(outer.process_peak, 1110);
  EXPECT_EQ(outer.live.peak_bytes, 1100);
  EXPECT_EQ(outer.self.peak_bytes, 100);
  EXPECT_EQ(outer.live.end_bytes, 24);
  EXPECT_EQ(outer.self.end_bytes, 0);
  EXPECT_EQ(outer.parent, std::nullopt);

  const LayerFigures& inner = layer_of(analysis, "Run/conv");
  EXPECT_EQ(inner.entries, 2);
  EXPECT_EQ(inner.duration, Nanoseconds{40});
  EXPECT_EQ(inner.allocations, 2);
  EXPECT_EQ(inner.releases, 1);
  EXPECT_EQ(inner.peak_allocated, 1000);
  EXPECT_EQ(inner.self.peak_bytes, 1000);
  EXPECT_EQ(analysis.layers[*inner.parent].path, "Run");

  const LayerFigures& outside = analysis.layers[0];
  EXPECT_EQ(outside.path, "");
  EXPECT_EQ(outside.self.peak_bytes, 10);
  EXPECT_EQ(outside.allocations, 1);

  std::int64_t sum = 0;
  for (const LayerFigures& layer : analysis.layers) sum += layer.self.peak_bytes;
  EXPECT_EQ(sum, analysis.peak_bytes.value);
}

TEST(Layers, CountsTimeUntilTheEndIfThreadNeverLeaves) {
  OwnRecording builder;
  const auto a = builder.scope("a");
  builder.enter_scope(0, 10, a);
  builder.enter_scope(1, 20, a);
  builder.allocate(0, 50, 0x1000, 100);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a").duration, Nanoseconds{40 + 30});
  EXPECT_EQ(layer_of(analysis, "a").entries, 2);
}

TEST(Layers, CountersDoNotChangeScopeOfThread) {
  OwnRecording builder({.full = false});
  const auto a = builder.scope("a"), b = builder.scope("b");
  builder.enter_scope(0, 10, a);
  builder.counters(0, 20, b, 5, 50, 2);
  builder.allocate(0, 30, 0x1000, 5000);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a").self.end_bytes, 5000);
  EXPECT_EQ(layer_of(analysis, "b").entries, 0);
  EXPECT_EQ(layer_of(analysis, "b").allocations, 5);
}

// Layers are compared by names and parents, not by the joined path: two scopes with one path are one layer, a
// name with a slash is not a path, and a range without a name (or whose name was lost) keeps its position.
TEST(Layers, AreTheScopesOfOneNameAndParent) {
  OwnRecording builder;
  const auto a = builder.scope("a"), again = builder.scope("a", 0, recording::ScopeSource::nvtx),
             b = builder.scope("b", a), both = builder.scope("a/b"), inner = builder.scope("c", both),
             alone = builder.scope("/model/conv", a), unnamed = builder.scope("", a),
             under = builder.scope("b", unnamed), lost = under + 10;
  std::uint64_t time = 0;
  for (const auto scope : {a, again, b, both, inner, alone, under, lost}) {
    time += 10;
    builder.enter_scope(0, time, scope);
    builder.allocate(0, time, 0x1000 * time, 100 * scope);
  }
  const RecordingAnalysis analysis = analyze(builder);
  const std::pair<std::string, std::uint32_t> kLayers[] = {{"a", a + again},
                                                           {"a/b", b},
                                                           {"a\\/b", both},
                                                           {"a\\/b/c", inner},
                                                           {"a/\\/model\\/conv", alone},
                                                           {"a/(unnamed)/b", under},
                                                           {"scope " + std::to_string(lost), lost}};
  for (const auto& [path, scopes] : kLayers)
    EXPECT_EQ(layer_of(analysis, path).self.end_bytes, 100 * scopes) << path;
}

}  // namespace

}  // namespace headroom::attribution
