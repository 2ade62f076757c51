#include "report/run/views.h"
#include "report/text_layout.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::HasSubstr;
using testing::Not;

TEST(MarkdownText, EscapesMarkupInNames) {
  EXPECT_EQ(escaped("yolox_nano_416"), "yolox_nano_416");
  EXPECT_EQ(escaped("_private_"), "\\_private\\_");
  EXPECT_EQ(escaped("a|b*c*\nd"), "a\\|b\\*c\\* d");
  EXPECT_EQ(escaped("<img src=x>"), "&lt;img src=x>");
  EXPECT_EQ(escaped("[x](http://y)"), "\\[x\\](http://y)");
  EXPECT_EQ(escaped("@octocat, root@host"), "@&#8203;octocat, root@host") << "no GitHub user is notified";
  EXPECT_EQ(escaped("&amp;"), "&amp;amp;");
}

TEST(MarkdownText, QuotesBackticksAndPipesInCode) {
  EXPECT_EQ(code("/data/a.onnx"), "`/data/a.onnx`");
  EXPECT_EQ(code("a|b"), "`a|b`");
  EXPECT_EQ(code("a`b"), "`` a`b ``");
  EXPECT_EQ(code("a``b"), "``` a``b ```");
  EXPECT_EQ(code("a\nb"), "`a b`");
  EXPECT_EQ(code(""), "");
}

TEST(MarkdownText, EscapesBarsInCells) {
  MarkdownTable table(1, {"Name", "n"});
  EXPECT_TRUE(table.empty());
  table.add({code("a|b"), escaped("c|d")});
  EXPECT_EQ(table.text(),
            "| Name   |    n |\n"
            "|--------|-----:|\n"
            "| `a\\|b` | c\\|d |\n\n");
}

// A run that was killed before the models ran together does not know whether they exceed the common limit.
TEST(Markdown, ReportsWhetherTheCommonLimitWasExceeded) {
  BenchResult run = test::parallel_run();
  EXPECT_THAT(to_markdown(run), HasSubstr("❌ exceeded"));
  run.parallel->within_limit.reset();
  EXPECT_THAT(to_markdown(run),
              HasSubstr("128.0 MiB; unknown whether the models stayed inside it: the run ended early"));
  run.parallel->within_limit = true;
  EXPECT_THAT(to_markdown(run), HasSubstr("128.0 MiB ✅ not exceeded"));
  run.parallel->joint_peak_source = "pss_samples";
  EXPECT_THAT(to_markdown(run), HasSubstr("128.0 MiB ✅ no sample was over the limit"));
}

TEST(Markdown, ReportsPagesChargedToOtherGroups) {
  BenchResult run = test::parallel_run();
  EXPECT_THAT(to_markdown(run), Not(HasSubstr("charged to other groups")));
  run.parallel->joint_share_peak = mebibytes(130);
  EXPECT_THAT(to_markdown(run), Not(HasSubstr("charged to other groups")))
      << "a few library pages are not reported";
  run.parallel->joint_share_peak = mebibytes(250);
  EXPECT_THAT(to_markdown(run),
              HasSubstr("128.0 MiB (`cgroup_v2`); 250.0 MiB with file pages charged to other "
                        "groups (proportional shares)"));
}

// Number of cells in a table row: unescaped '|', minus the outer two.
std::size_t cells_in(const std::string& line) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i)
    bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1U : 0U;
  return bars - 1;
}

TEST(Markdown, KeepsTheShapeOfTablesForAnyNames) {
  for (const auto& [name, run] : test::sample_runs()) {
    std::istringstream text(to_markdown(run));
    std::size_t expected = 0;
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with('|')) {
        expected = 0;
        continue;
      }
      if (expected == 0) expected = cells_in(line);
      EXPECT_EQ(cells_in(line), expected) << name << ": " << line;
    }
  }
}

// The kernel kills at the limit, so the group's peak is the limit itself and not an excess.
TEST(Markdown, ReportsAModelThatWasStoppedAtTheLimit) {
  BenchResult run = test::charged_run();
  run.models[1].status = ModelStatus::oom;
  run.models[1].memory.within_limit = false;
  run.models[1].memory.cgroup_peak = mebibytes(96);
  const std::string text = to_markdown(run);
  EXPECT_THAT(text, HasSubstr("**Memory** ❌ stopped at the limit of 96.0 MiB (resident 104.5 MiB)\n"));
  EXPECT_THAT(text, Not(HasSubstr("over the limit of")));
}

TEST(Markdown, ReportsThatNoRouteWasTriedWithoutEnforcement) {
  BenchResult run = test::charged_run();
  for (LimitRoute& route : run.limit->routes) route.outcome = "not_tried";
  EXPECT_THAT(to_markdown(run), HasSubstr("**Routes that the probe tried**")) << "the table has the reasons";
  for (const LimitMechanism mechanism : {LimitMechanism::watchdog, LimitMechanism::none}) {
    run.limit->mechanism = mechanism;
    const std::string text = to_markdown(run);
    EXPECT_THAT(text, HasSubstr("No route was tried: this mechanism does not refuse memory.\n"));
    EXPECT_THAT(text, Not(HasSubstr("**Routes that the probe tried**")));
  }
}

TEST(Markdown, ShowsThresholdsOfModelsAndOptionsOfTheRun) {
  BenchResult run = test::parallel_run();
  run.models[0].confidence = 0.9;
  run.models[0].iou = 0.45;
  run.models[1].confidence = 0.25;
  run.options.emplace().max_frames = 42;
  const std::string text = to_markdown(run);
  EXPECT_THAT(text, HasSubstr("- **Thresholds**: confidence 0.9, IoU 0.45\n"));
  EXPECT_THAT(text, HasSubstr("- **Thresholds**: confidence 0.25\n"));
  EXPECT_THAT(text, HasSubstr("confidence 0.25, IoU 0.45; some models use their own\n"));
  EXPECT_THAT(text, HasSubstr("- **Options**: max-frames 42, warmup 10, threads 0, limit-mechanism auto, "
                              "workspace 256.0 MiB"));
}

TEST(Markdown, ShowsPreparedFramesThatDidNotRun) {
  BenchResult run = test::parallel_run();
  EXPECT_THAT(to_markdown(run), HasSubstr("- **Frames**: 795 prepared, 300 run by each model\n"));
  run.models[0].frames = 200;
  EXPECT_THAT(to_markdown(run), HasSubstr("- **Frames**: 795 prepared, 200 to 300 run per model\n"));
  EXPECT_THAT(to_markdown(test::typical_run()), HasSubstr("- **Frames**: 795\n"));
}

TEST(Markdown, NamesTheSizeOfTheProbe) {
  BenchResult run = test::typical_run();
  EXPECT_THAT(to_markdown(run), HasSubstr("with a limit of 64.0 MiB instead of 512.0 MiB"));
  run.limit->bytes = mebibytes(32);
  EXPECT_THAT(to_markdown(run), HasSubstr("with this limit"));
}

TEST(Markdown, ExplainsTheInputsOfARunWithoutASource) {
  BenchResult run = test::typical_run();
  run.source.reset();
  EXPECT_THAT(to_markdown(run), HasSubstr("None: the models ran on inputs generated from their signatures."));
  for (ModelResult& model : run.models) model.frames = 0;  // the run ended before the scan of the source
  EXPECT_THAT(to_markdown(run), Not(HasSubstr("Input Source")));
}

TEST(Markdown, ListsOnlyTheFirstOfManySkippedFrames) {
  BenchResult run = test::fallen_run();
  run.source->skipped.assign(1000, {"x.jpg", "truncated JPEG"});
  const std::string text = to_markdown(run);
  EXPECT_THAT(text, HasSubstr("1000 items of the source"));
  EXPECT_THAT(text, HasSubstr("and 980 more"));
}

}  // namespace
}  // namespace headroom::report
