// Runs graphs with the interface of family A (tests/golden/vos/tracer_graphs.py).
#include "inference/vos/families.h"

#include "inference/vos/small_floats.h"
#include "tracer_fixture.h"

namespace headroom::inference::vos {
namespace {

using test::error_of;
using test::value_of;
using testing::HasSubstr;

class FamilyRunTest : public TracerTest {
 protected:
  static Result<FamilyRun> open(const std::string& kind) {
    return FamilyRun::load(*backend_, test::source_path("tests/golden/vos/tracer/" + kind), one_thread());
  }
};

TEST_F(FamilyRunTest, RunsFramesWithABankThatStopsGrowing) {
  FamilyRun run = value_of(open("family_a"));
  EXPECT_EQ(run.family().id, "A");
  EXPECT_EQ(run.side(), kSide);
  Bytes bank{}, scratch{};
  for (int video = 0; video < 2; ++video) {
    run.start_video(2);
    for (int frame = 0; frame < 20; ++frame) value_of(run.step(picture(frame)));
    if (video == 0) {
      bank = run.bank_bytes();
      scratch = run.scratch_bytes();
    }
    value_of(run.end_video());
  }
  EXPECT_EQ(bank.count, 2 * 4 * (7 * 2 * 4 * 4 + 16 * 8));  // 7 memories and 16 pointers, for two objects
  EXPECT_EQ(run.bank_bytes(), bank);
  EXPECT_EQ(run.scratch_bytes(), scratch);
}

TEST_F(FamilyRunTest, TakesHalves) {
  FamilyRun run = value_of(open("family_a"));
  run.start_video(1);
  value_of(run.step(std::vector<std::uint16_t>(3 * kSide * kSide, to_float16(0.5F))));
  EXPECT_THAT(error_of(run.step(std::vector<std::uint16_t>(5))).sentence(),
              HasSubstr("5 halves instead of 12288"));
}

TEST_F(FamilyRunTest, RefusesFilesForSinglePictures) {
  EXPECT_THAT(error_of(open("image_only")).sentence(), HasSubstr("segment single pictures"));
  const Error of_a_file = error_of(open("image_only/decoder.onnx"));
  EXPECT_EQ(of_a_file.kind, ErrorKind::input);
  EXPECT_THAT(of_a_file.sentence(), HasSubstr("segment single pictures"));
}

TEST_F(FamilyRunTest, RejectsAPictureOfAnotherSize) {
  FamilyRun run = value_of(open("family_a"));
  EXPECT_THAT(error_of(run.step(std::vector<std::uint8_t>(3))).sentence(),
              HasSubstr("3 bytes instead of 12288"));
}

TEST_F(FamilyRunTest, TheTrackerRunsItWithItsLabelAndWithoutMasks) {
  Tracker tracker = load("family_a");
  EXPECT_THAT(tracker.label(), HasSubstr("not the reference algorithm: the mask for the memory passes"));
  EXPECT_EQ(tracker.side(), kSide);
  value_of(tracker.start_video(100, 50, 3, 2));
  value_of(tracker.prompt(0, click(0, 1)));
  value_of(tracker.prompt(1, click(0, 2)));
  for (int frame = 0; frame < 3; ++frame) step(tracker, frame);
  EXPECT_FALSE(tracker.object(0).visible);
  EXPECT_EQ(tracker.mask(1).pixels, std::vector<std::uint8_t>(5000, 0));
  EXPECT_GT(tracker.bank_bytes().count, 0);
  value_of(tracker.end_video());
  EXPECT_EQ(load("dynamic").label(), "");
}

TEST_F(FamilyRunTest, GraphsOfTheContractAreNoFamily) {
  EXPECT_FALSE(open("fixed"));
  EXPECT_FALSE(open("nothing"));
}

}  // namespace
}  // namespace headroom::inference::vos
