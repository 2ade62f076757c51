#include "bench/conductor/common_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::bench {
namespace {

ModelResult result_with(const std::string& name, ModelStatus status) {
  ModelResult model;
  model.name = name;
  model.status = status;
  model.memory.within_limit = status == ModelStatus::ok;
  if (status == ModelStatus::oom) model.error = "the kernel killed it at the limit of 180.0 MiB";
  return model;
}

std::vector<ModelResult> results(ModelStatus grows, ModelStatus big) {
  return {result_with("grows", grows), result_with("big", big)};
}

TEST(CommonLimit, DistinguishesAGrowingModelFromItsVictim) {
  auto together = results(ModelStatus::oom, ModelStatus::oom);
  explain_kills_at_common_limit(together, results(ModelStatus::oom, ModelStatus::ok));
  EXPECT_EQ(together[0].error,
            "the kernel killed it at the limit of 180.0 MiB; all models share that limit: alone it exceeds "
            "the limit, too");
  EXPECT_EQ(together[0].memory.within_limit, false);
  EXPECT_EQ(together[1].status, ModelStatus::oom);
  EXPECT_EQ(together[1].error,
            "the kernel killed it at the limit of 180.0 MiB; all models share that limit: this model fits "
            "alone, grows does not");
  EXPECT_EQ(together[1].memory.within_limit, std::nullopt);
}

TEST(CommonLimit, ReportsModelsThatFitOnlyAlone) {
  auto together = results(ModelStatus::ok, ModelStatus::oom);
  explain_kills_at_common_limit(together, results(ModelStatus::ok, ModelStatus::ok));
  EXPECT_EQ(together[0].error, "");
  EXPECT_THAT(together[1].error, testing::EndsWith("each model fits alone, but not all together"));
}

TEST(CommonLimit, DoesNotJudgeAModelWithoutARunAlone) {
  auto together = results(ModelStatus::ok, ModelStatus::oom);
  explain_kills_at_common_limit(together, results(ModelStatus::ok, ModelStatus::timeout));
  EXPECT_THAT(together[1].error, testing::EndsWith("its memory alone is unknown"));
  EXPECT_EQ(together[1].memory.within_limit, false);
}

// The clause must refer to the limit, whatever text precedes it.
TEST(CommonLimit, AppendsItsClauseToAnyError) {
  auto together = results(ModelStatus::ok, ModelStatus::oom);
  together[1].error += "; up to 3.5 MiB of this memory were decoded frames (--max-frames-in-mem)";
  explain_kills_at_common_limit(together, results(ModelStatus::ok, ModelStatus::ok));
  EXPECT_THAT(
      together[1].error,
      testing::HasSubstr("(--max-frames-in-mem); all models share that limit: each model fits alone"));
}

TEST(CommonLimit, DecidesWhetherTheLimitWasKept) {
  ParallelResult result;
  result.together = results(ModelStatus::ok, ModelStatus::ok);
  result.joint_peak = mebibytes(70);
  EXPECT_EQ(stayed_within_common_limit(result, std::nullopt, false), std::nullopt);
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(80), false), true);
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(80), true), std::nullopt) << "the run ended early";
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(60), true), false) << "an excess stays an excess";
  result.together[0].memory.violations = 1;
  EXPECT_EQ(stayed_within_common_limit(result, mebibytes(80), false), false);
}

// Several processes map the same 30 MiB of code, which the bench's own processes map, too: each reports a
// share of 10 MiB.
TEST(CommonLimit, CountsSharedPagesOnceAndInFull) {
  ProcessMemory model;
  model.rss = mebibytes(100);
  model.file_backed = mebibytes(30);
  model.shared = mebibytes(8);
  model.pss = mebibytes(62 + 10 + 4);
  model.pss_file = mebibytes(10);
  model.pss_shared = mebibytes(4);
  EXPECT_EQ(resident_without_duplicates({model}), mebibytes(100)) << "one process: its resident size";
  EXPECT_EQ(resident_without_duplicates({model, model, ProcessMemory{}}), mebibytes(2 * 62 + 30 + 8));
  EXPECT_EQ(resident_without_duplicates({model, model, model, model}), mebibytes(4 * 62 + 40 + 16))
      << "other files";
  model.pss_file.reset();  // before Linux 5.3
  EXPECT_EQ(resident_without_duplicates({model}), std::nullopt);
}

}  // namespace
}  // namespace headroom::bench
