#include "bench/common_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::bench {
namespace {

ModelResult result(const std::string& name, ModelStatus status) {
  ModelResult model;
  model.name = name;
  model.status = status;
  model.memory.within_limit = status == ModelStatus::ok;
  if (status == ModelStatus::oom) model.error = "the kernel killed it at the limit of 180.0 MiB";
  return model;
}

std::vector<ModelResult> results(ModelStatus grows, ModelStatus big) {
  return {result("grows", grows), result("big", big)};
}

TEST(CommonLimit, TheVictimOfAModelThatGrowsIsToldApart) {
  auto together = results(ModelStatus::oom, ModelStatus::oom);
  tell_apart_at_common_limit(together, results(ModelStatus::oom, ModelStatus::ok));
  EXPECT_EQ(
      together[0].error,
      "the kernel killed it at the limit of 180.0 MiB; all models share that limit, and alone it exceeds it, "
      "too");
  EXPECT_EQ(together[0].memory.within_limit, false);
  EXPECT_EQ(together[1].status, ModelStatus::oom);
  EXPECT_EQ(together[1].error,
            "the kernel killed it at the limit of 180.0 MiB; all models share that limit, and alone it stays "
            "within "
            "it, unlike grows");
  EXPECT_EQ(together[1].memory.within_limit, std::nullopt);
}

TEST(CommonLimit, ModelsThatOnlyFitAloneSaySo) {
  auto together = results(ModelStatus::ok, ModelStatus::oom);
  tell_apart_at_common_limit(together, results(ModelStatus::ok, ModelStatus::ok));
  EXPECT_EQ(together[0].error, "");
  EXPECT_THAT(together[1].error,
              testing::EndsWith("alone it stays within it: the models do not fit together"));
}

TEST(CommonLimit, WhatWasNotMeasuredAloneIsNotJudged) {
  auto together = results(ModelStatus::ok, ModelStatus::oom);
  tell_apart_at_common_limit(together, results(ModelStatus::ok, ModelStatus::timeout));
  EXPECT_THAT(together[1].error, testing::EndsWith("what it needs alone is not known"));
  EXPECT_EQ(together[1].memory.within_limit, false);
}

// Whatever else the error says, the clause must still be of the limit.
TEST(CommonLimit, TheClauseStandsByItselfBehindAnother) {
  auto together = results(ModelStatus::ok, ModelStatus::oom);
  together[1].error += "; up to 3.5 MiB of it were decoded frames that the bench holds (--max-frames-in-mem)";
  tell_apart_at_common_limit(together, results(ModelStatus::ok, ModelStatus::ok));
  EXPECT_THAT(together[1].error, testing::HasSubstr("(--max-frames-in-mem); all models share that limit, and "
                                                    "alone it stays within it"));
}

TEST(CommonLimit, ItIsKeptOrNotOrNotKnown) {
  ParallelResult result;
  result.together = results(ModelStatus::ok, ModelStatus::ok);
  result.joint_peak = mebibytes(70);
  EXPECT_EQ(kept_common_limit(result, std::nullopt, false), std::nullopt);
  EXPECT_EQ(kept_common_limit(result, mebibytes(80), false), true);
  EXPECT_EQ(kept_common_limit(result, mebibytes(80), true), std::nullopt) << "the run ended before";
  EXPECT_EQ(kept_common_limit(result, mebibytes(60), true), false) << "nothing that came later undoes it";
  result.together[0].memory.violations = 1;
  EXPECT_EQ(kept_common_limit(result, mebibytes(80), false), false);
}

// Two models whose code lies in the bench's own processes, too: of 30 MiB each maps, a share of 10 is told.
TEST(CommonLimit, PagesInCommonWithTheBenchAreCountedOnceAndWhole) {
  ProcessMemory model;
  model.rss = mebibytes(100);
  model.file_backed = mebibytes(30);
  model.shared = mebibytes(8);
  model.pss = mebibytes(62 + 10 + 4);
  model.pss_file = mebibytes(10);
  model.pss_shared = mebibytes(4);
  EXPECT_EQ(resident_once({model}), mebibytes(100)) << "alone it is the resident size";
  EXPECT_EQ(resident_once({model, model, ProcessMemory{}}), mebibytes(2 * 62 + 30 + 8));
  EXPECT_EQ(resident_once({model, model, model, model}), mebibytes(4 * 62 + 40 + 16)) << "other files";
  model.pss_file.reset();  // before Linux 5.3
  EXPECT_EQ(resident_once({model}), std::nullopt);
}

}  // namespace
}  // namespace headroom::bench
