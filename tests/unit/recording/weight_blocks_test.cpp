// Weights: their layer becomes known long after their allocation.
#include <gmock/gmock.h>

#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

using test::RecordingBuilder;
using testing::ElementsAre;
using testing::IsEmpty;

class WeightBlocksTest : public testing::Test {
 protected:
  WeightBlocksTest() : builder_(folder_ / "a.hrec") {
    const std::uint32_t net = builder_.scope("Net", 0, ScopeSource::module);
    conv_ = builder_.scope("conv", net, ScopeSource::module);
    weights_ = builder_.scope(kWeightsScope, conv_, ScopeSource::weights);
    other_ = builder_.scope(kWeightsScope, net, ScopeSource::weights);
  }
  // The scope of each allocation, and whether it is marked as a weight.
  static std::vector<std::pair<std::uint32_t, bool>> owners(Recording& recording) {
    std::vector<std::pair<std::uint32_t, bool>> found;
    for (const MemoryEvent& event : read_events(recording).events) {
      EXPECT_NE(event.kind, MemoryEventKind::weight);
      if (event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate)
        found.emplace_back(event.scope.index, event.is_weight);
    }
    return found;
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
  std::uint32_t conv_ = 0, weights_ = 0, other_ = 0;
};

TEST_F(WeightBlocksTest, AssignsWeightsToTheirLayerFromAllocationOn) {
  builder_.allocate(0, 10, 0x1000, 400);
  builder_.allocate(0, 20, 0x2000, 800);
  builder_.release(0, 30, 0x2000);
  builder_.allocate(0, 40, 0x2000, 900);  // the block that is there now
  builder_.enter_scope(0, 50, conv_);
  builder_.allocate(0, 60, 0x3000, 100);
  builder_.weight(0, 70, 0x1000, weights_);
  builder_.weight(0, 71, 0x1000, other_);  // tied weights: the first module wins
  builder_.weight(0, 72, 0x2000, other_);
  builder_.weight(0, 73, 0x9000, other_);  // not a recorded block
  builder_.release(0, 80, 0x1000);
  builder_.allocate(0, 90, 0x1000, 400);  // a different block
  auto recording = Recording::open(builder_.finish());
  ASSERT_TRUE(recording.has_value());
  const auto expected = ElementsAre(std::pair(weights_, true), std::pair(0u, false), std::pair(other_, true),
                                    std::pair(conv_, false), std::pair(conv_, false));
  EXPECT_THAT(owners(*recording), expected);
  EXPECT_THAT(owners(*recording), expected) << "the second time";
  EXPECT_THAT(recording->problems(), IsEmpty());
}

TEST_F(WeightBlocksTest, FindsWeightsOfAnotherThread) {
  builder_.allocate(1, 10, 0x1000, 400);
  builder_.weight(0, 70, 0x1000, weights_);
  Recording recording = *Recording::open(builder_.finish());
  Recording moved = std::move(recording);
  EXPECT_THAT(owners(moved), ElementsAre(std::pair(weights_, true)));
}

}  // namespace
}  // namespace headroom::recording
