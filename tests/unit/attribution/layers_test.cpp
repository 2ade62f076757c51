// Figures of layers, calculated by hand.
#include <gtest/gtest.h>

#include "attribution/recording_analysis.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::attribution {
namespace {

using test::RecordingBuilder;

RecordingAnalysis analyze(RecordingBuilder& builder) {
  auto opened = recording::Recording::open(builder.finish());
  EXPECT_TRUE(opened.has_value());
  return analyze_recording(*opened, {});
}

const LayerFigures& layer_of(const RecordingAnalysis& analysis, const std::string& path) {
  for (const LayerFigures& layer : analysis.layers)
    if (layer.path == path) return layer;
  ADD_FAILURE() << "there is no layer " << path;
  return analysis.layers[0];
}

// The tracer ends a runtime's profile from time to time. That is not a cycle of the program, although its
// scope is an outer one and repeats often. The interrupted layer was entered only once.
TEST(Layers, TracerScopeIsNotACycleAndDoesNotEndLayers) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto session = builder.scope("model", 0, recording::ScopeSource::session);
  const auto run = builder.scope("run", session, recording::ScopeSource::run);
  const auto own = builder.scope(recording::kTracerScope);
  std::uint64_t time = 0, address = 0x1000;
  for (int cycle = 0; cycle < 12; ++cycle) {
    builder.enter_scope(0, ++time, run);
    builder.allocate(0, ++time, address += 0x1000, 100);
    builder.enter_scope(0, ++time, own);
    builder.allocate(0, ++time, address += 0x1000, 8);
    builder.release(0, ++time, address);
    builder.enter_scope(0, ++time, run);
    builder.allocate(0, ++time, address += 0x1000, 100);
    builder.enter_scope(0, ++time, 0);
    for (int more = 0; more < 2; ++more) {
      builder.enter_scope(0, ++time, own);
      builder.enter_scope(0, ++time, 0);
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
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
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

TEST(Layers, BlockStaysWithLayerThatAllocatedIt) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto a = builder.scope("a"), b = builder.scope("b");
  builder.enter_scope(0, 10, a);
  builder.allocate(0, 20, 0x1000, 100);
  builder.enter_scope(0, 30, b);
  builder.release(0, 40, 0x1000);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a").live.end_bytes, 0);
  EXPECT_EQ(layer_of(analysis, "a").releases, 0);
  EXPECT_EQ(layer_of(analysis, "b").releases, 1);
  EXPECT_EQ(layer_of(analysis, "b").live.end_bytes, 0);
}

TEST(Layers, CountsTimeUntilTheEndIfThreadNeverLeaves) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto a = builder.scope("a");
  builder.enter_scope(0, 10, a);
  builder.enter_scope(1, 20, a);
  builder.allocate(0, 50, 0x1000, 100);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a").duration, Nanoseconds{40 + 30});
  EXPECT_EQ(layer_of(analysis, "a").entries, 2);
}

TEST(Layers, SegmentRestoresItsScope) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto a = builder.scope("a");
  builder.enter_scope(0, 10, a);
  builder.end_segment(0);
  builder.allocate(0, 20, 0x1000, 100);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a").self.end_bytes, 100);
  EXPECT_EQ(layer_of(analysis, "a").entries, 1);
}

TEST(Layers, CountersDoNotChangeScopeOfThread) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec", {.full = false});
  const auto a = builder.scope("a"), b = builder.scope("b");
  builder.enter_scope(0, 10, a);
  builder.counters(0, 20, b, 5, 50, 2);
  builder.allocate(0, 30, 0x1000, 5000);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a").self.end_bytes, 5000);
  EXPECT_EQ(layer_of(analysis, "b").entries, 0);
  EXPECT_EQ(layer_of(analysis, "b").allocations, 5);
}

TEST(Layers, ScopesWithSamePathAreOneLayer) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto first = builder.scope("a"), second = builder.scope("a", 0, recording::ScopeSource::nvtx);
  builder.enter_scope(0, 10, first);
  builder.allocate(0, 20, 0x1000, 100);
  builder.enter_scope(1, 30, second);
  builder.allocate(1, 40, 0x2000, 100);
  const RecordingAnalysis analysis = analyze(builder);
  ASSERT_EQ(analysis.layers.size(), 2U);
  EXPECT_EQ(analysis.layers[1].self.end_bytes, 200);
}

// Layers are compared by names and parents, not by the joined path.
TEST(Layers, NameWithSlashIsNotAPath) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto a = builder.scope("a"), b = builder.scope("b", a), both = builder.scope("a/b"),
             inner = builder.scope("c", both), alone = builder.scope("/model/conv", a);
  std::uint64_t time = 0;
  for (const auto scope : {b, both, inner, alone}) {
    time += 10;
    builder.enter_scope(0, time, scope);
    builder.allocate(0, time, 0x1000 * time, 100 * scope);
  }
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a/b").self.end_bytes, 100 * b);
  EXPECT_EQ(layer_of(analysis, "a\\/b").self.end_bytes, 100 * both);
  EXPECT_EQ(layer_of(analysis, "a\\/b/c").self.end_bytes, 100 * inner);
  EXPECT_EQ(layer_of(analysis, "a//model/conv").self.end_bytes, 100 * alone) << "no other has its path";
}

// If escaping slashes makes two paths equal, backslashes are escaped as well.
TEST(Layers, PathsAreUnique) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto nested = builder.scope("b", builder.scope("a")), both = builder.scope("a/b"),
             backslash = builder.scope("b", builder.scope("a\\"));
  std::uint64_t time = 0;
  for (const auto scope : {nested, both, backslash}) {
    time += 10;
    builder.enter_scope(0, time, scope);
    builder.allocate(0, time, 0x1000 * time, 100 * scope);
  }
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a/b").self.end_bytes, 100 * nested);
  EXPECT_EQ(layer_of(analysis, "a\\/b").self.end_bytes, 100 * both);
  EXPECT_EQ(layer_of(analysis, "a\\\\/b").self.end_bytes, 100 * backslash);
}

TEST(Layers, UnnamedRangeKeepsItsPosition) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  const auto outer = builder.scope("a"), unnamed = builder.scope("", outer),
             inner = builder.scope("b", unnamed);
  builder.enter_scope(0, 10, inner);
  builder.allocate(0, 20, 0x1000, 100);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "a/(unnamed)/b").self.end_bytes, 100);
  EXPECT_EQ(layer_of(analysis, "a").live.end_bytes, 100);
}

TEST(Layers, ScopeWithLostNameIsStillALayer) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec");
  builder.enter_scope(0, 10, 17);
  builder.allocate(0, 20, 0x1000, 100);
  const RecordingAnalysis analysis = analyze(builder);
  EXPECT_EQ(layer_of(analysis, "scope 17").self.end_bytes, 100);
}

}  // namespace
}  // namespace headroom::attribution
