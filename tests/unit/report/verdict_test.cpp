#include "report/verdict.h"

#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Verdict, AllInsideAProvedLimit) {
  const Verdict verdict = verdict_of(test::typical_run());
  EXPECT_EQ(verdict.tone, Tone::good);
  EXPECT_THAT(verdict.sentence,
              StartsWith("All 3 models stayed inside the hard limit of 512.0 MiB; the largest peak"));
  EXPECT_THAT(verdict.sentence, HasSubstr("(yolox_nano_1280), 25.1 % of it"));
  EXPECT_TRUE(verdict.details.empty());
}

TEST(Verdict, WithoutALimitNothingIsProved) {
  const Verdict verdict = verdict_of(test::pipeline_run());
  EXPECT_EQ(verdict.tone, Tone::neutral);
  EXPECT_THAT(verdict.sentence, HasSubstr("no memory limit was set"));
}

TEST(Verdict, ALimitThatNothingEnforcesProvesNothing) {
  BenchResult run = test::typical_run();
  run.limit->type = LimitType::unavailable;
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("nothing enforced that limit"));
}

TEST(Verdict, EachModelThatDidNotComeThroughHasItsSentence) {
  const Verdict verdict = verdict_of(test::fallen_run());
  EXPECT_EQ(verdict.tone, Tone::bad);
  EXPECT_EQ(verdict.sentence,
            "1 of 6 models stayed inside the soft limit of 128.0 MiB; 1 exceeded it; 4 did not come through");
  EXPECT_THAT(
      verdict.details,
      ElementsAre(StartsWith("yolox_nano_1280: over the limit of 128.0 MiB in 7 samples, with a peak of"),
                  StartsWith("huge: out of memory while warming up: the watchdog"),
                  StartsWith("crashes: crashed while running: it crashed with SIGSEGV"),
                  StartsWith("hangs: timed out while loading the model: "),
                  StartsWith("corrupt: failed while loading the model: ")));
}

TEST(Verdict, ModelsThatFitAloneMayNotFitTogether) {
  const Verdict verdict = verdict_of(test::parallel_run());
  EXPECT_EQ(verdict.tone, Tone::bad);
  EXPECT_THAT(verdict.sentence, StartsWith("Alone, both models stayed inside"));
  EXPECT_THAT(verdict.details, ElementsAre("all at once: the models did not stay inside the limit",
                                           StartsWith("all at once: text: out of memory")));
}

TEST(Verdict, AFailedPipelineIsBad) {
  BenchResult run = test::pipeline_run();
  run.pipeline->status = ModelStatus::oom;
  run.pipeline->error = "killed";
  EXPECT_EQ(verdict_of(run).tone, Tone::bad);
  EXPECT_THAT(verdict_of(run).details, ElementsAre("pipeline: out of memory: killed"));
}

TEST(Verdict, OfNothing) {
  EXPECT_EQ(verdict_of(test::empty_run()).sentence, "No model was measured");
  BenchResult run = test::empty_run();
  run.models.emplace_back();  // a slot that was skipped
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
}

}  // namespace
}  // namespace headroom::report
