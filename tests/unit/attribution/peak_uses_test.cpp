// The purpose of the memory at the peak.
#include "attribution/peak_uses.h"

#include <gtest/gtest.h>

#include <map>

#include "attribution/recording_analysis.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::attribution {
namespace {

using recording::ScopeSource;
using test::RecordingBuilder;

class PeakUses : public testing::Test {
 protected:
  PeakUses() : builder_(folder_ / "a.hrec") {}
  RecordingAnalysis analyze() {
    auto opened = recording::Recording::open(builder_.finish());
    EXPECT_TRUE(opened.has_value());
    return analyze_recording(*opened, {});
  }
  static std::map<std::string, std::int64_t> bytes_of(const RecordingAnalysis& analysis) {
    std::map<std::string, std::int64_t> bytes;
    for (const PeakUse& use : peak_uses(analysis)) bytes[use.name] = use.bytes;
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
  const RecordingAnalysis analysis = analyze();
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
  EXPECT_TRUE(peak_uses(analyze()).empty());
}

}  // namespace
}  // namespace headroom::attribution
