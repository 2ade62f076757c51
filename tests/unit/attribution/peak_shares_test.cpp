// Assigns every byte of the peak to one name.

#include <gtest/gtest.h>
#include <map>
#include <numeric>

#include "attribution/peak_shares.h"
#include "unit/attribution/analyze.h"

namespace headroom::attribution {

namespace {

using test::RecordingBuilder;

constexpr std::uint64_t kProgram = 0x10000, kRuntime = 0x20000, kLibc = 0x30000, kModuleBytes = 0x1000;

class PeakShares : public testing::Test {
 protected:
  PeakShares() : builder_(folder_ / "a.hrec") {
    builder_.module("/opt/app/detector", "", kProgram, kProgram + kModuleBytes, kProgram);
    builder_.module("/usr/lib/libonnxruntime.so.1", "", kRuntime, kRuntime + kModuleBytes, kRuntime);
    builder_.module("/lib/libc.so.6", "", kLibc, kLibc + kModuleBytes, kLibc);
  }
  std::vector<PeakShare> shares() {
    recording::Recording opened = open_built(builder_);
    const RecordingAnalysis analysis = analyze_recording(opened, {});
    auto shares = peak_shares(opened.info(), opened.stacks(), analysis);
    const auto sum =
        std::accumulate(shares.begin(), shares.end(), std::int64_t{0},
                        [](std::int64_t bytes, const auto& share) { return bytes + share.bytes; });
    EXPECT_EQ(sum, analysis.peak_bytes.value);
    return shares;
  }
  static void expect(const PeakShare& share, ShareKind kind, const std::string& name, std::int64_t bytes) {
    EXPECT_EQ(share.kind, kind) << share.name;
    EXPECT_EQ(share.name, name);
    EXPECT_EQ(share.bytes, bytes) << share.name;
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
};

TEST_F(PeakShares, NamesModuleOfCallerOutsideLayers) {
  const auto run = builder_.scope("model/run");
  const RecordingBuilder::Frames of_runtime{kLibc + 8, kRuntime + 8, kProgram + 8};
  builder_.allocate(0, 10, 0x1000, 300, of_runtime);
  builder_.allocate(0, 20, 0x2000, 200, {kLibc + 16, kProgram + 16});
  builder_.enter_scope(0, 30, run);
  builder_.allocate(0, 40, 0x3000, 1000, of_runtime);  // the same stack as the first, but in a layer
  builder_.enter_scope(0, 50, 0);
  builder_.allocate(0, 60, 0x4000, 50);
  builder_.allocate(0, 61, 0x5000, 40, {kLibc + 8});
  builder_.allocate(0, 62, 0x6000, 30, {0x999999});
  builder_.release(0, 70, 0x3000);
  builder_.release(0, 71, 0x1000);
  const auto found = shares();
  ASSERT_EQ(found.size(), 5u);
  expect(found[0], ShareKind::layer, "model/run", 1000);
  expect(found[1], ShareKind::module, "libonnxruntime.so.1", 300);
  expect(found[2], ShareKind::module, "detector", 200);
  expect(found[3], ShareKind::unnamed, "", 80);
  expect(found[4], ShareKind::module, "libc.so.6", 40);
}

TEST(ResponsibleModule, PicksLatestModuleAtSameAddress) {
  recording::RecordingInfo info;
  info.modules.resize(2);
  info.modules[0] = {"/old/liba.so", "", 0, 100, 200, {}, Nanoseconds{5}};
  info.modules[1] = {"/new/libb.so", "", 0, 100, 200, {}, std::nullopt};
  const std::uint64_t frames[] = {150};
  EXPECT_EQ(responsible_module(info, frames), "libb.so");
  EXPECT_EQ(responsible_module(info, {}), "");
}

// In and outside of layers, at the peak and at the end.
TEST_F(PeakShares, AttributesMemoryToRequestingModule) {
  const auto run = builder_.scope("model/run");
  builder_.allocate(0, 10, 0x1000, 300, {kLibc + 8, kRuntime + 8, kProgram + 8});
  builder_.allocate(0, 20, 0x2000, 200, {kLibc + 16, kProgram + 16});
  builder_.enter_scope(0, 30, run);
  builder_.allocate(0, 40, 0x3000, 1000, {kRuntime + 40, kProgram + 8});
  builder_.allocate(0, 50, 0x4000, 5);
  builder_.release(0, 60, 0x3000);
  builder_.release(0, 70, 0x4000);
  recording::Recording opened = open_built(builder_);
  const RecordingAnalysis analysis = analyze_recording(opened, {});
  const auto modules = module_figures(opened.info(), opened.stacks(), analysis);
  ASSERT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules[0].name, "libonnxruntime.so.1");
  EXPECT_EQ(modules[0].live.peak_bytes, 1300);
  EXPECT_EQ(modules[0].live.peak_blocks, 2);
  EXPECT_EQ(modules[0].live.end_bytes, 300);
  EXPECT_EQ(modules[1].name, "detector");
  EXPECT_EQ(modules[1].live.end_bytes, 200);
  EXPECT_EQ(modules[2].name, "") << "without a stack no module is known";
  EXPECT_EQ(modules[2].live.peak_bytes, 5);
}

// The purpose of the memory at the peak.

using recording::ScopeSource;

class PeakUses : public testing::Test {
 protected:
  PeakUses() : builder_(folder_ / "a.hrec") {}
  static std::map<std::string, std::int64_t> bytes_of(const RecordingAnalysis& analysis) {
    std::map<std::string, std::int64_t> bytes;
    for (const PeakPart& use : peak_uses(analysis)) bytes[use.name] = use.bytes;
    return bytes;
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
};

TEST_F(PeakUses, AreFoundByLayersOfTrainingStep) {
  const auto net = builder_.scope("Net", 0, ScopeSource::module);
  const auto range = builder_.scope("attention", net, ScopeSource::nvtx);
  const auto weights = builder_.scope(recording::kWeightsScope, net, ScopeSource::weights);
  const auto backward = builder_.scope("backward", 0, ScopeSource::phase);
  const auto again = builder_.scope("Net", backward, ScopeSource::module);
  const auto step = builder_.scope("optimizer.step", 0, ScopeSource::phase);
  builder_.allocate(0, 10, 0x1000, 1000);
  builder_.allocate(0, 11, 0x2000, 5);
  builder_.enter_scope(0, 20, net);
  builder_.weight(0, 21, 0x1000, weights);
  builder_.allocate(0, 22, 0x3000, 200);
  builder_.enter_scope(0, 23, range);
  builder_.allocate(0, 24, 0x4000, 20);
  builder_.enter_scope(0, 30, backward);
  builder_.allocate(0, 31, 0x5000, 3000);
  builder_.enter_scope(0, 32, again);
  builder_.allocate(0, 33, 0x6000, 2);
  builder_.enter_scope(0, 40, step);
  builder_.allocate(0, 41, 0x7000, 40'000);
  const RecordingAnalysis analysis = analyze(builder_);
  EXPECT_EQ(bytes_of(analysis), (std::map<std::string, std::int64_t>{{"weights", 1000},
                                                                     {"activations", 222},
                                                                     {"gradients", 3000},
                                                                     {"optimizer_state", 40'000},
                                                                     {"other", 5}}));
  // No thread ever entered the weights' scope.
  for (const LayerFigures& layer : analysis.layers) {
    if (layer.source != ScopeSource::weights) continue;
    EXPECT_EQ(layer.path, "Net/(weights)");
    EXPECT_EQ(layer.entries, 0);
    EXPECT_EQ(layer.duration.count, 0);
    EXPECT_EQ(layer.self.end_bytes, 1000);
  }
}

TEST_F(PeakUses, AreEmptyIfNoModuleWasCalled) {
  builder_.enter_scope(0, 5, builder_.scope("range", 0, ScopeSource::nvtx));
  builder_.allocate(0, 10, 0x1000, 1000);
  EXPECT_TRUE(peak_uses(analyze(builder_)).empty());
}

}  // namespace

}  // namespace headroom::attribution
