// Tests that the tracker allocates nothing for a frame once its ring is full. The runtime, a shared library,
// is not counted. A separate program, because it replaces operator new.
#include "support/counting_new.h"
#include "tracer_fixture.h"

namespace headroom::inference::vos {
namespace {

using test::own_allocations_so_far;
using test::value_of;

class AllocationTest : public TracerTest {
 protected:
  static constexpr int kFrames = 40, kObjects = 5, kObjectsPerRun = 2;
};

TEST_F(AllocationTest, AFullRingAllocatesNothing) {
  for (const bool non_overlap : {false, true}) {
    Tracker tracker = load("dynamic", {.non_overlap = non_overlap, .objects_per_run = kObjectsPerRun});
    value_of(tracker.start_video(100, 70, 200, kObjects));
    for (std::size_t i = 0; i < kObjects; ++i)
      value_of(tracker.prompt(i, click(0, static_cast<float>(10 + i))));
    const std::vector<std::uint8_t> image = picture(3);
    std::int64_t frame = 0;
    for (; frame < 20; ++frame) value_of(tracker.step(frame, image));
    const Bytes bank = tracker.bank_bytes(), scratch = tracker.scratch_bytes();
    const std::int64_t before = own_allocations_so_far();
    for (int i = 0; i < kFrames; ++i, ++frame) value_of(tracker.step(frame, image));
    EXPECT_EQ(own_allocations_so_far(), before);
    EXPECT_EQ(tracker.bank_bytes(), bank);
    EXPECT_EQ(tracker.scratch_bytes(), scratch);
  }
}

TEST_F(AllocationTest, TheCounterCounts) {
  const std::int64_t before = own_allocations_so_far();
  const std::vector<int> some(3);
  EXPECT_GT(own_allocations_so_far(), before);
}

}  // namespace
}  // namespace headroom::inference::vos
