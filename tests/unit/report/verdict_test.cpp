#include "report/run/verdict.h"

#include "report/run/outcome.h"
#include "report/run/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Verdict, IsGoodIfAllModelsStayInsideAProvedLimit) {
  const Verdict verdict = verdict_of(test::typical_run());
  EXPECT_EQ(verdict.tone, Tone::good);
  EXPECT_THAT(verdict.sentence,
              StartsWith("All 3 models stayed inside the hard limit of 512.0 MiB. Largest peak: "));
  EXPECT_THAT(verdict.sentence, HasSubstr("yolox_nano_1280, 130.6 MiB charged to the limit, 25.5 % of it "
                                          "(resident 128.4 MiB)"));
  EXPECT_TRUE(verdict.details.empty());
}

// The user stopped the run during the pipeline, so the pipeline did not fail.
TEST(Verdict, DoesNotCountAnInterruptedPipelineAsAFailure) {
  BenchResult run = test::pipeline_run();
  run.complete = false;
  run.pipeline->status = ModelStatus::failed;
  run.pipeline->error = kCutShort;
  run.pipeline->died_in = Phase::model_loaded;
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
  EXPECT_TRUE(verdict_of(run).details.empty());
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("The run was cut short"));
  EXPECT_THAT(to_markdown(run), HasSubstr("cut short: the run ended while it was being measured"));
  run.pipeline->error = "it crashed with signal 11";
  EXPECT_EQ(verdict_of(run).tone, Tone::bad);
}

TEST(Verdict, IsNeutralWithoutALimit) {
  const Verdict verdict = verdict_of(test::pipeline_run());
  EXPECT_EQ(verdict.tone, Tone::neutral);
  EXPECT_THAT(verdict.sentence, HasSubstr("No memory limit."));
}

TEST(Verdict, IsNeutralForAnUnenforcedLimit) {
  BenchResult run = test::typical_run();
  run.limit->type = LimitType::unavailable;
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("nothing enforced this limit"));
}

TEST(Verdict, CountsModelsBelowAnUnenforcedLimit) {
  BenchResult run = test::typical_run();
  run.limit->type = LimitType::unavailable;
  run.limit->mechanism = LimitMechanism::none;
  run.models[0].memory.within_limit = false;
  run.models[0].memory.violations = 3;
  EXPECT_EQ(verdict_of(run).sentence,
            "2 of 3 models stayed below 512.0 MiB, but nothing enforced this limit; 1 exceeded it");
}

TEST(Verdict, HasOneSentencePerFailedModel) {
  const Verdict verdict = verdict_of(test::fallen_run());
  EXPECT_EQ(verdict.tone, Tone::bad);
  EXPECT_EQ(verdict.sentence,
            "1 of 6 models stayed inside the soft limit of 128.0 MiB; 1 exceeded it; 4 failed");
  EXPECT_THAT(
      verdict.details,
      ElementsAre(StartsWith("yolox_nano_1280: over the limit of 128.0 MiB in 7 samples, with a peak of"),
                  StartsWith("huge: out of memory while warming up: the watchdog"),
                  StartsWith("crashes: crashed while running: it crashed with SIGSEGV"),
                  StartsWith("hangs: timed out while loading the model: "),
                  StartsWith("corrupt: failed while loading the model: ")));
}

TEST(Verdict, ReportsModelsThatFitOnlyAlone) {
  const Verdict verdict = verdict_of(test::parallel_run());
  EXPECT_EQ(verdict.tone, Tone::bad);
  EXPECT_THAT(verdict.sentence,
              StartsWith("All at once, the models did not fit into the hard limit of 128.0 MiB. "
                         "Alone, each fits. Largest peak: text, 106.8 MiB"));
  EXPECT_THAT(verdict.details, ElementsAre("all at once: the models did not stay inside the limit",
                                           StartsWith("all at once: text: out of memory")));
}

TEST(Verdict, ReportsAnExceededGpuLimit) {
  BenchResult run = test::typical_run();
  GpuMemory gpu;
  gpu.device = "cuda:0";
  gpu.limit = Bytes{1 << 30};
  gpu.run_peak = Bytes{3 << 29};
  gpu.within_limit = false;
  run.models.front().gpu_memory = {gpu};
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.tone, Tone::bad);
  EXPECT_THAT(verdict.sentence, StartsWith("All 3 models stayed inside the hard limit of 512.0 MiB"));
  EXPECT_THAT(verdict.details,
              ElementsAre(run.models.front().name +
                          ": over the limit of 1.00 GiB of cuda:0, with a peak of 1.50 GiB"));
}

TEST(Verdict, IsBadIfAllModelsTogetherExceedAGpuLimit) {
  BenchResult run = test::parallel_run();
  const std::size_t before = verdict_of(run).details.size();
  run.parallel->gpu_memory = {{"cuda:0", Bytes{3 << 29}, Bytes{1 << 30}, Bytes{1 << 30}}};
  const Verdict verdict = verdict_of(run);
  ASSERT_EQ(verdict.details.size(), before + 1);
  EXPECT_THAT(verdict.details, testing::Contains(HasSubstr("all at once: 1.50 GiB of cuda:0 in use")));
  run.parallel->gpu_memory[0].joint_peak = Bytes{1 << 30};
  EXPECT_EQ(verdict_of(run).details.size(), before);
}

TEST(Verdict, IsBadForAFailedPipeline) {
  BenchResult run = test::pipeline_run();
  run.pipeline->status = ModelStatus::oom;
  run.pipeline->error = "killed";
  EXPECT_EQ(verdict_of(run).tone, Tone::bad);
  EXPECT_THAT(verdict_of(run).details, ElementsAre("pipeline: out of memory: killed"));
}

TEST(Verdict, TakesTheShareFromTheEnforcedFigure) {
  BenchResult run = test::charged_run();
  run.models.erase(run.models.begin() + 2);
  EXPECT_EQ(verdict_of(run).tone, Tone::good);
  EXPECT_EQ(verdict_of(run).sentence,
            "text stayed inside the hard limit of 96.0 MiB. Peak: 76.2 MiB charged to the limit, "
            "79.3 % of it (resident 104.5 MiB)");
  // The watchdog compares resident memory.
  run.limit->mechanism = LimitMechanism::watchdog;
  run.limit->bytes = mebibytes(209);
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("Peak: 104.5 MiB resident, 50.0 % of the limit"));
  // RLIMIT_DATA counts reserved memory. A report without that figure has no share.
  run.limit->mechanism = LimitMechanism::rlimit_data;
  EXPECT_THAT(verdict_of(run).sentence, Not(HasSubstr("%")));
  for (ModelResult& model : run.models) model.memory.data_peak = mebibytes(190);
  EXPECT_THAT(verdict_of(run).sentence,
              HasSubstr("Peak: 190.0 MiB reserved against the limit, 90.9 % of it (resident 104.5 MiB)"));
}

TEST(Verdict, GivesNoShareWithoutAPeakOfTheGroup) {
  BenchResult run = test::typical_run();
  for (ModelResult& model : run.models) model.memory.cgroup_peak.reset();
  EXPECT_THAT(verdict_of(run).sentence, testing::EndsWith("yolox_nano_1280, 128.4 MiB resident"));
}

TEST(Verdict, CountsMeasuredModelsOfAnInterruptedRun) {
  EXPECT_EQ(verdict_of(test::incomplete_run()).sentence,
            "1 of 3 models was measured. The run was cut short. No memory limit. Largest peak: blazeface, "
            "33.7 MiB resident");
  EXPECT_EQ(verdict_of(test::incomplete_run()).tone, Tone::neutral);
  EXPECT_TRUE(verdict_of(test::incomplete_run()).details.empty());

  BenchResult run = test::incomplete_run();
  run.models.erase(run.models.begin());
  EXPECT_EQ(verdict_of(run).sentence, "None of the 2 models was measured. The run was cut short");

  run = test::typical_run();
  run.complete = false;  // in one of the extra runs
  EXPECT_THAT(verdict_of(run).sentence, StartsWith("All 3 models were measured. The run was cut short. They "
                                                   "stayed inside the hard limit of 512.0 MiB"));
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
}

TEST(Verdict, IsNeutralForPreparedModels) {
  BenchResult run = test::prepared_run();
  EXPECT_EQ(verdict_of(run).sentence, "Both models are prepared but not measured");
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
  run.models[1].status = ModelStatus::crashed;
  EXPECT_EQ(verdict_of(run).sentence, "1 of 2 models is prepared but not measured");
  EXPECT_EQ(verdict_of(run).tone, Tone::bad);
}

TEST(Verdict, HandlesARunWithoutModels) {
  EXPECT_EQ(verdict_of(test::empty_run()).sentence, "No model was measured");
  BenchResult run = test::empty_run();
  run.models.emplace_back();  // a skipped model
  EXPECT_EQ(verdict_of(run).tone, Tone::neutral);
}

}  // namespace
}  // namespace headroom::report
