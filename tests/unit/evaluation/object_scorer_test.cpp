#include "evaluation/object_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/evaluation/masks_of_text.h"

namespace headroom::evaluation {
namespace {

using test::filled_mask;
using test::mask_of_rows;
using testing::HasSubstr;

const BinaryMask kEmpty = filled_mask(4, 4, 0);
const BinaryMask kObject = mask_of_rows({"....", ".##.", ".##.", "...."});
const BinaryMask kHalf = mask_of_rows({"....", ".#..", ".#..", "...."});  // J 0.5

// Frames of truth and prediction; a null prediction is missing.
using Frames = std::vector<std::pair<const BinaryMask*, const BinaryMask*>>;

Result<ObjectScore> score_of(Protocol protocol, const Frames& frames) {
  ObjectScorer scorer(protocol);
  MetricScratch scratch;
  for (const auto& frame : frames) EXPECT_TRUE(scorer.add(*frame.first, frame.second, scratch));
  return scorer.score();
}

TEST(Statistics, MeanAndRecall) {
  const Statistics statistics = statistics_of({1, 0.5, 0.6, 0.1});
  EXPECT_DOUBLE_EQ(statistics.mean, 0.55);
  EXPECT_DOUBLE_EQ(statistics.recall, 0.5);  // 0.5 itself is not above 0.5
}

// For n = 9 the bounds are 0, 2, 4, 6, 8: quarters share their end frames.
TEST(Statistics, DecayIsFirstQuarterMinusLast) {
  EXPECT_DOUBLE_EQ(statistics_of({0.9, 0.8, 0.7, 0, 0, 0, 0.3, 0.2, 0.1}).decay, 0.8 - 0.2);
  // n = 8: linspace(1, 8, 5) is 1, 2.75, 4.5, 6.25, 8; rounded 1, 3, 5, 6, 8.
  EXPECT_DOUBLE_EQ(statistics_of({1, 1, 1, 0, 0, 0.5, 0.5, 0.5}).decay, 0.5);
  // n = 3: 1, 1.5, 2, 2.5, 3; halves are rounded up: 1, 2, 2, 3, 3.
  EXPECT_DOUBLE_EQ(statistics_of({1, 0.5, 0.1}).decay, 0.75 - 0.1);
  EXPECT_DOUBLE_EQ(statistics_of({0.7}).decay, 0);
  // The program of DAVIS keeps the bounds in 8 bits; longer clips are not cut here.
  std::vector<double> longer(1001, 0.0);
  for (std::size_t i = 0; i <= 250; ++i) longer[i] = 1;
  EXPECT_DOUBLE_EQ(statistics_of(longer).decay, 1);
}

TEST(ObjectScorer, DavisLeavesOutFirstAndLastFrame) {
  const auto score = score_of(
      Protocol::davis, {{&kObject, &kEmpty}, {&kObject, &kObject}, {&kObject, &kHalf}, {&kObject, &kEmpty}});
  ASSERT_TRUE(score) << score.error().sentence();
  EXPECT_EQ(score->frames, 2);
  EXPECT_DOUBLE_EQ(score->j.mean, 0.75);
  EXPECT_DOUBLE_EQ(score->j.recall, 0.5);
  EXPECT_DOUBLE_EQ(score->f.mean, 1);  // all boundaries are within one pixel
  EXPECT_DOUBLE_EQ(score->j_and_f(), 0.875);
}

TEST(ObjectScorer, DavisCountsFramesBeforeTheObjectAppears) {
  const auto score = score_of(
      Protocol::davis, {{&kObject, &kObject}, {&kEmpty, &kEmpty}, {&kEmpty, &kObject}, {&kEmpty, &kEmpty}});
  ASSERT_TRUE(score);
  EXPECT_EQ(score->frames, 2);
  EXPECT_DOUBLE_EQ(score->j.mean, 0.5);
  EXPECT_DOUBLE_EQ(score->f.mean, 0.5);
}

TEST(ObjectScorer, SavBeginsWhereTruthOrPredictionHasTheObject) {
  const Frames late = {{&kEmpty, &kEmpty},   {&kEmpty, &kEmpty},  {&kEmpty, &kEmpty},
                       {&kObject, &kObject}, {&kObject, &kEmpty}, {&kObject, &kObject}};
  const auto score = score_of(Protocol::sav, late);
  ASSERT_TRUE(score) << score.error().sentence();
  EXPECT_EQ(score->frames, 2);
  EXPECT_DOUBLE_EQ(score->j.mean, 0.5);
  EXPECT_EQ(score_of(Protocol::davis, late)->frames, 4);
  // A prediction begins the list, too, and counts as wrong there.
  const auto early = score_of(Protocol::sav, {{&kEmpty, &kEmpty},
                                              {&kEmpty, &kObject},
                                              {&kEmpty, &kEmpty},
                                              {&kObject, &kObject},
                                              {&kObject, &kObject}});
  ASSERT_TRUE(early);
  EXPECT_EQ(early->frames, 3);
  EXPECT_DOUBLE_EQ(early->j.mean, 2.0 / 3);
}

TEST(ObjectScorer, SavIgnoresTheObjectInFirstAndLastFrame) {
  const auto score = score_of(
      Protocol::sav, {{&kObject, &kObject}, {&kEmpty, &kObject}, {&kEmpty, &kEmpty}, {&kObject, &kObject}});
  ASSERT_FALSE(score);
  EXPECT_THAT(score.error().sentence(), HasSubstr("the ground truth is empty in all frames that count"));
}

TEST(ObjectScorer, MissingPredictionIsAnEmptyMask) {
  const Frames frames = {{&kObject, nullptr},
                         {&kObject, &kObject},
                         {&kObject, nullptr},
                         {&kEmpty, nullptr},
                         {&kObject, nullptr}};
  const auto davis = score_of(Protocol::davis, frames);
  ASSERT_TRUE(davis);
  EXPECT_EQ(davis->missing_frames, 2);  // the first and the last do not count
  EXPECT_DOUBLE_EQ(davis->j.mean, 2.0 / 3);
  EXPECT_DOUBLE_EQ(davis->f.mean, 2.0 / 3);
  const auto reference = score_of(Protocol::reference, frames);
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->frames, 5);
  EXPECT_EQ(reference->missing_frames, 4);
  EXPECT_DOUBLE_EQ(reference->j.mean, 0.2);  // also 0 where the truth is empty
  EXPECT_DOUBLE_EQ(reference->f.mean, 0.2);
}

TEST(ObjectScorer, ReferenceCountsAllFramesAndSkipsAnEmptyBegin) {
  const auto score = score_of(Protocol::reference, {{&kObject, &kHalf}, {&kEmpty, &kEmpty}});
  ASSERT_TRUE(score);
  EXPECT_EQ(score->frames, 2);
  EXPECT_DOUBLE_EQ(score->j.mean, 0.75);
  const auto skipped = score_of(Protocol::reference, {{&kEmpty, &kEmpty}, {&kObject, &kObject}});
  ASSERT_FALSE(skipped);
  EXPECT_THAT(skipped.error().sentence(), HasSubstr("its first mask is empty"));
}

TEST(ObjectScorer, NeedsThreeAnnotatedFrames) {
  const Frames two = {{&kObject, &kObject}, {&kObject, &kObject}};
  for (const Protocol protocol : {Protocol::davis, Protocol::sav}) {
    const auto score = score_of(protocol, two);
    ASSERT_FALSE(score);
    EXPECT_THAT(score.error().sentence(), HasSubstr("only 2 of its frames are annotated"));
  }
  EXPECT_TRUE(score_of(Protocol::reference, two));
  EXPECT_FALSE(score_of(Protocol::reference, {}));
}

TEST(ObjectScorer, ScoreCanBeAskedForInBetween) {
  ObjectScorer scorer(Protocol::davis);
  MetricScratch scratch;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(scorer.add(kObject, &kObject, scratch));
  EXPECT_EQ(scorer.score()->frames, 1);
  ASSERT_TRUE(scorer.add(kObject, &kHalf, scratch));
  ASSERT_TRUE(scorer.add(kObject, &kHalf, scratch));
  EXPECT_EQ(scorer.score()->frames, 3);
  EXPECT_DOUBLE_EQ(scorer.score()->j.mean, 2.5 / 3);
}

TEST(ObjectScorer, RejectsMasksOfDifferentSizes) {
  ObjectScorer scorer(Protocol::davis);
  MetricScratch scratch;
  const BinaryMask other = filled_mask(5, 4, 0), incomplete{4, 4, {1, 0}};
  const auto added = scorer.add(kObject, &other, scratch);
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().sentence(), HasSubstr("the prediction has 5 x 4 pixels, the ground truth 4 x 4"));
  EXPECT_FALSE(scorer.add(kObject, &incomplete, scratch));
  EXPECT_FALSE(scorer.add(incomplete, nullptr, scratch));
}

}  // namespace
}  // namespace headroom::evaluation
