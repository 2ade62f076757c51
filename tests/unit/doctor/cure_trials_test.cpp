#include "doctor/cure_trials.h"

#include <cmath>
#include <limits>

#include "doctor/log/log_findings.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

BenchResult run_of(const std::string& words = "") {
  BenchResult run;
  run.options.emplace();
  ModelResult model;
  model.name = "m";
  model.path = "/data/m.onnx";
  model.backend = "onnxruntime";
  model.status = ModelStatus::ok;
  EXPECT_TRUE(set_settings(model.settings, words));
  run.models = {model};
  return run;
}

Finding finding_with(std::vector<CureSettings> cures) {
  Finding finding;
  for (CureSettings& settings : cures) {
    Cure cure{"", "", {}};
    cure.settings = std::move(settings);
    finding.cures.push_back(std::move(cure));
  }
  return finding;
}

comparison::MetricChange change(const char* metric, double before, double after, bool differs = true) {
  comparison::MetricChange change;
  change.metric = comparison::find_run_metric(metric);
  change.before = before;
  change.after = after;
  change.differs = differs;
  change.is_judged = true;
  return change;
}

comparison::ModelComparison comparison(std::vector<comparison::MetricChange> metrics) {
  comparison::ModelComparison model;
  model.name = "m";
  model.metrics = std::move(metrics);
  return model;
}

// A comparison of three runs per side.
comparison::ModelComparison outcome(std::size_t failed_before, std::size_t failed_after,
                                    std::vector<comparison::MetricChange> metrics) {
  comparison::ModelComparison model = comparison(std::move(metrics));
  for (auto* side : {&model.outcome_before, &model.outcome_after}) {
    side->runs = 3;
    side->failed = side == &model.outcome_before ? failed_before : failed_after;
    if (side->failed == 0) continue;
    side->status = ModelStatus::oom;
    side->error = "killed";
  }
  return model;
}

TriedCure tried_with(const char* settings, std::int64_t saved_mebibytes,
                     CureVerdict verdict = CureVerdict::helps) {
  TriedCure one;
  one.settings = {"m", settings};
  one.verdict = verdict;
  one.saved = mebibytes(saved_mebibytes);
  return one;
}

constexpr double kMiB = 1 << 20;

TEST(CureTrials, TriesEachCureOnceAndSkipsCuresWithoutEffect) {
  const std::vector<Finding> findings{
      finding_with({{"m", "arena=off"}, {"m", "prepack=off"}, {"absent", "arena=off"}}),
      finding_with({{"m", "prepack=off"}, {"m", "mapped=on"}})};
  std::vector<std::string> words;
  for (const CureSettings& cure : doctor::cures_to_try(findings, run_of("mapped=on")))
    words.push_back(cure.settings);
  EXPECT_THAT(words, ElementsAre("arena=off", "prepack=off"));

  CureSettings frames{"m", ""};
  frames.max_frames_in_memory = 8;
  BenchResult run = run_of();
  EXPECT_EQ(doctor::cures_to_try({finding_with({frames})}, run).size(), 1U);
  run.options->max_frames_in_memory = 8;
  EXPECT_THAT(doctor::cures_to_try({finding_with({frames})}, run), IsEmpty());
}

TEST(CureTrials, VerdictDependsOnNoise) {
  const auto verdict = [](std::vector<comparison::MetricChange> metrics) {
    return doctor::judge({"m", "arena=off"}, "", comparison(std::move(metrics)));
  };
  const auto smaller =
      verdict({change("run_peak", 200 * kMiB, 150 * kMiB), change("load_peak", 100 * kMiB, 100 * kMiB, false),
               change("latency", 1e6, 1.01e6, false)});
  EXPECT_EQ(smaller.verdict, CureVerdict::helps);
  EXPECT_EQ(smaller.saved, mebibytes(50));
  EXPECT_NEAR(*smaller.latency_change, 0.01, 1e-9);
  EXPECT_EQ(smaller.sentence,
            "it helps: run peak 200.0 MiB → 150.0 MiB (-25.0 %), load peak 100.0 MiB → 100.0 MiB (+0.0 %), "
            "latency 1.00 ms → 1.01 ms (+1.0 %, within the noise between runs)");
  EXPECT_EQ(verdict({change("run_peak", 200 * kMiB, 150 * kMiB), change("latency", 1e6, 2e6)}).verdict,
            CureVerdict::costs_speed);
  EXPECT_EQ(
      verdict({change("run_peak", 200 * kMiB, 199 * kMiB, false), change("latency", 1e6, 0.5e6)}).verdict,
      CureVerdict::no_difference);
  EXPECT_EQ(verdict({change("run_peak", 200 * kMiB, 220 * kMiB)}).verdict, CureVerdict::worse);
  EXPECT_EQ(verdict({change("run_peak", 200 * kMiB, 200 * kMiB, false), change("latency", 1e6, 2e6)}).verdict,
            CureVerdict::worse);
  // With few frames latency makes no verdict. But a cure that is much slower must not be reported as free of
  // cost.
  comparison::MetricChange few = change("latency", 1e6, 3e6);
  few.is_judged = false;
  const TriedCure slow = verdict({change("run_peak", 200 * kMiB, 150 * kMiB), few});
  EXPECT_EQ(slow.verdict, CureVerdict::costs_speed);
  EXPECT_THAT(slow.sentence, testing::EndsWith("latency 1.00 ms → 3.00 ms (+200.0 %, few frames)"));
  few.differs = false;
  few.high = std::numeric_limits<double>::infinity();
  const TriedCure single = verdict({change("run_peak", 200 * kMiB, 150 * kMiB), few});
  EXPECT_EQ(single.verdict, CureVerdict::helps);
  EXPECT_THAT(single.sentence, testing::EndsWith("(+200.0 %, not separable from noise in so few runs)"));
  EXPECT_THAT(verdict({change("run_peak", 400 * kMiB, 180 * kMiB, false)}).sentence,
              StartsWith("no difference beyond the noise between runs"));
  // One peak falls and the other grows: the larger one decides, unless it changes by about one per cent.
  const auto mixed = [&](double load) {
    return verdict({change("run_peak", 200 * kMiB, 210 * kMiB), change("load_peak", 300 * kMiB, load * kMiB)})
        .verdict;
  };
  EXPECT_EQ(mixed(250), CureVerdict::helps);
  EXPECT_EQ(mixed(298), CureVerdict::no_difference);
}

TEST(CureTrials, FailedTrialIsNotAGain) {
  comparison::ModelComparison fallen = outcome(0, 3, {});
  fallen.outcome_after.error = "no such setting";
  const auto tried = doctor::judge({"m", "arena=off"}, "", fallen);
  EXPECT_EQ(tried.verdict, CureVerdict::failed);
  EXPECT_EQ(tried.sentence, "it failed in every run: no such setting");
  EXPECT_FALSE(tried.saved);
  EXPECT_EQ(doctor::judge({"m", "arena=off"}, "", outcome(3, 3, {})).verdict, CureVerdict::failed);
  const auto risen = doctor::judge({"m", "arena=off"}, "", outcome(3, 0, {}));
  EXPECT_EQ(risen.verdict, CureVerdict::helps);
  EXPECT_EQ(risen.sentence, "every run succeeds; before, every run failed");
}

// Some runs fail and others succeed: the successful runs decide.
TEST(CureTrials, OccasionalFailureIsNeitherGainNorFailure) {
  const auto smaller = change("run_peak", 200 * kMiB, 150 * kMiB),
             same = change("run_peak", 200 * kMiB, 200 * kMiB, false),
             larger = change("run_peak", 200 * kMiB, 250 * kMiB);
  const auto tried = [](std::size_t failed_before, std::size_t failed_after,
                        std::vector<comparison::MetricChange> metrics) {
    return doctor::judge({"m", "arena=off"}, "", outcome(failed_before, failed_after, std::move(metrics)));
  };
  const auto rarer = tried(1, 0, {same});
  EXPECT_EQ(rarer.verdict, CureVerdict::no_difference);
  EXPECT_EQ(rarer.sentence,
            "no difference beyond the noise between runs: run peak 200.0 MiB → 200.0 MiB (+0.0 %); 3 of 3 "
            "runs succeeded, 2 of 3 before, which may be chance");
  EXPECT_EQ(rarer.figures.size(), 1U);
  EXPECT_EQ(tried(1, 0, {smaller}).verdict, CureVerdict::helps);
  EXPECT_EQ(tried(1, 0, {smaller}).saved, mebibytes(50));
  EXPECT_EQ(tried(1, 1, {smaller}).verdict, CureVerdict::helps);
  EXPECT_THAT(tried(1, 1, {smaller}).sentence,
              testing::EndsWith("; 2 of 3 runs succeeded, 2 of 3 before (a run failed: killed)"));
  EXPECT_EQ(tried(0, 1, {larger}).verdict, CureVerdict::worse);
  EXPECT_EQ(tried(0, 1, {same}).verdict, CureVerdict::no_difference);

  // The failed runs may be those with the largest peak.
  const auto fewer = tried(0, 1, {smaller});
  EXPECT_EQ(fewer.verdict, CureVerdict::no_difference);
  EXPECT_EQ(fewer.sentence,
            "unclear: run peak 200.0 MiB → 150.0 MiB (-25.0 %); 2 of 3 runs succeeded, 3 of 3 before, which "
            "may be chance (a run failed: killed)");
  EXPECT_EQ(tried(2, 0, {larger}).verdict, CureVerdict::no_difference);

  // Without the cure it always failed; with the cure it fails sometimes.
  const auto now_and_then = tried(3, 1, {});
  EXPECT_EQ(now_and_then.verdict, CureVerdict::no_difference);
  EXPECT_EQ(now_and_then.sentence,
            "2 of 3 runs succeeded, 0 of 3 before, which may be chance (a run failed: killed)");
  EXPECT_EQ(tried(1, 3, {}).verdict, CureVerdict::failed);
}

TEST(CureTrials, UselessCuresComeLast) {
  Finding finding =
      finding_with({{"m", "mapped=on"}, {"m", "arena=off"}, {"m", "prepack=off"}, {"m", "pattern=off"}});
  finding.first_cure_meets_cause = true;
  finding.cures[0].saves = mebibytes(144);
  finding.cures[3].saves = mebibytes(100);
  const auto order = [&] {
    doctor::sort_cures(finding);
    std::vector<std::string> words;
    for (const Cure& cure : finding.cures) words.push_back(cure.settings->settings);
    return words;
  };
  EXPECT_THAT(order(), ElementsAre("mapped=on", "pattern=off", "arena=off", "prepack=off"));
  std::vector<Finding> findings{finding};
  doctor::keep_trial(findings, tried_with("mapped=on", 0, CureVerdict::failed));
  doctor::keep_trial(findings, tried_with("arena=off", 5, CureVerdict::costs_speed));
  doctor::keep_trial(findings, tried_with("prepack=off", 50));
  finding = findings[0];
  EXPECT_THAT(order(), ElementsAre("prepack=off", "arena=off", "pattern=off", "mapped=on"));
}

TEST(CureTrials, CombinesCuresThatHelped) {
  const auto together = [&](const std::vector<TriedCure>& all) {
    const auto found = doctor::best_together(all, {});
    return found ? found->settings : std::string("none");
  };
  EXPECT_EQ(together({tried_with("prepack=off", 10), tried_with("mapped=on", 50),
                      tried_with("arena=off", 5, CureVerdict::worse)}),
            "prepack=off,mapped=on");
  EXPECT_EQ(together({tried_with("prepack=off", 10)}), "none");
  EXPECT_EQ(together({tried_with("prepack=off,mapped=on", 50), tried_with("mapped=on", 20)}), "none")
      << "tried already";
  EXPECT_EQ(together({tried_with("mapped=on,prepack=off", 50), tried_with("mapped=on", 20)}), "none")
      << "in other words";
  EXPECT_EQ(together({tried_with("extend=same_as_requested", 10), tried_with("arena=off", 30)}), "none")
      << "without an arena there is nothing to extend: it is arena=off alone";
  EXPECT_EQ(together({tried_with("threads=1", 10), tried_with("threads=2,pattern=off", 30)}), "none");
  EXPECT_EQ(together({tried_with("threads=1,arena=off", 10), tried_with("threads=2,pattern=off", 30)}),
            "threads=2,arena=off,pattern=off");
  EXPECT_EQ(together({tried_with("arena=off", 0, CureVerdict::failed), tried_with("prepack=off", 0)}),
            "none");
}

TEST(CureTrials, TrialUsesOptionsOfTheRun) {
  BenchResult run = run_of("arena=off");
  run.options->memory_limit = gibibytes(1);
  run.options->max_frames = 50;
  run.source.emplace();
  run.source->spec = {SourceKind::video, "/data/a drive.mp4", 0};
  EXPECT_THAT(doctor::bench_arguments(run, run.models[0], CureSettings{"m", "mapped=on"}),
              ElementsAre("bench", "--source", "video=/data/a drive.mp4", "--model",
                          "m=/data/m.onnx,backend=onnxruntime,arena=off,mapped=on", "--max-frames", "50",
                          "--mem-limit", "1GiB"));
  EXPECT_THAT(doctor::bench_arguments(run_of(), run_of().models[0]),
              ElementsAre("bench", "--model", "m=/data/m.onnx,backend=onnxruntime"));
}

BenchResult run_of_two() {
  BenchResult run = run_of();
  run.models.push_back(run.models[0]);
  run.models[1].name = "n";
  run.models.push_back(run.models[0]);
  run.models[2].name = "other";
  run.models[2].path = "/data/other.onnx";
  return run;
}

CureSettings of_both(const std::string& words, bool leave_out) {
  CureSettings cure{"m", words};
  cure.also = {"n"};
  cure.leave_out_also = leave_out;
  return cure;
}

TEST(CureTrials, TriesCureOfSeveralModelsOnAll) {
  const BenchResult run = run_of_two();
  EXPECT_THAT(
      doctor::bench_arguments(run, run.models[0], of_both("mapped=on", false)),
      ElementsAre("bench", "--model", "m=/data/m.onnx,backend=onnxruntime,mapped=on", "--model",
                  "n=/data/m.onnx,backend=onnxruntime,mapped=on", "--model",
                  "other=/data/other.onnx,backend=onnxruntime", "--parallel", "--metrics-interval", "50ms"));
  EXPECT_THAT(
      doctor::bench_arguments(run, run.models[0], of_both("", true)),
      ElementsAre("bench", "--model", "m=/data/m.onnx,backend=onnxruntime", "--model",
                  "other=/data/other.onnx,backend=onnxruntime", "--parallel", "--metrics-interval", "50ms"));
  BenchResult pipeline = run;
  pipeline.pipeline.emplace();
  EXPECT_THAT(doctor::bench_arguments(pipeline, run.models[0], of_both("", true)),
              testing::Contains("--pipeline"));
  EXPECT_EQ(doctor::cures_to_try({finding_with({of_both("", true), of_both("", false)})}, run).size(), 1U)
      << "no setting changes";
}

TEST(CureTrials, JointRunIsReportedAsOneModel) {
  BenchResult run = run_of_two();
  EXPECT_EQ(doctor::joint_result(run).status, ModelStatus::failed) << "they were run one after another";
  run.parallel.emplace();
  run.parallel->together = run.models;
  run.parallel->joint_peak = mebibytes(700);
  EXPECT_EQ(doctor::joint_result(run).memory.run_peak, mebibytes(700)) << "no shares were sampled";
  run.parallel->joint_share_peak = mebibytes(300);
  for (ModelResult& model : run.parallel->together) {
    model.memory.pss_run_peak = mebibytes(170);  // before other processes mapped the weights, too
    model.inference.emplace();
    model.inference->p50 = Nanoseconds{2'000'000};
  }
  EXPECT_EQ(doctor::joint_result(run).memory.run_peak, mebibytes(300));
  EXPECT_EQ(doctor::joint_latency(run), 6'000'000.0);
  run.parallel->together[1].status = ModelStatus::oom;
  EXPECT_EQ(doctor::joint_result(run).status, ModelStatus::oom);
  run.parallel->together.erase(run.parallel->together.begin() + 1);
  EXPECT_EQ(doctor::joint_result(run).status, ModelStatus::ok);
  run.models[1].status = ModelStatus::failed;
  EXPECT_EQ(doctor::joint_result(run).status, ModelStatus::failed)
      << "what could not be prepared was not there, so the others took less";
  run.pipeline.emplace();
  run.pipeline->status = ModelStatus::ok;
  run.pipeline->memory.run_peak = mebibytes(250);
  EXPECT_EQ(doctor::joint_result(run).memory.run_peak, mebibytes(250));
}

}  // namespace
}  // namespace headroom::test
