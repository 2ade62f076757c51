#include "base/text.h"
#include "base/utf8.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {

namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

using testing::HasSubstr;
using testing::Not;

int widest_line(const std::string& text) {
  int widest = 0;
  for (const auto line : split(text, '\n')) widest = std::max(widest, display_width(line));
  return widest;
}

TEST(TerminalSummary, FitsTheTerminal) {
  for (const auto& [name, run] : test::sample_runs())
    for (const int width : {40, 60, 72, 80, 100, 200})
      EXPECT_LE(widest_line(to_terminal(run, false, width)), width) << name << " at " << width;
  BenchResult run = test::typical_run();
  run.models[0].name = "模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型";
  EXPECT_LE(widest_line(to_terminal(run, false, 80)), 80);
  EXPECT_THAT(to_terminal(run, false, 80), HasSubstr("…"));
}

TEST(TerminalSummary, AlignsColumns) {
  BenchResult run = test::typical_run();
  run.models[0].name = "模型";
  const std::string text = to_terminal(run, false, 80);
  const auto lines = split(text, '\n');
  const auto column_of = [&](std::size_t line, std::string_view word) {
    return display_width(lines[line].substr(0, lines[line].find(word)));
  };
  EXPECT_EQ(column_of(3, "STATUS"), column_of(4, "ok"));
  EXPECT_EQ(column_of(4, "ok"), column_of(5, "ok"));
}

TEST(TerminalSummary, UsesColoursOnlyOnRequest) {
  EXPECT_THAT(to_terminal(test::fallen_run(), false, 80), Not(HasSubstr("\033")));
  EXPECT_THAT(to_terminal(test::fallen_run(), true, 80), HasSubstr("\033[31m"));
}

TEST(TerminalSummary, KeepsColumnsAlignedWithColours) {
  std::string coloured = to_terminal(test::fallen_run(), true, 80);
  for (std::size_t at; (at = coloured.find('\033')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, to_terminal(test::fallen_run(), false, 80));
}

// The kinds of memory in a row add up to the heap at any width.
TEST(TerminalSummary, AddsKindsOfMemoryToThePeak) {
  for (const int width : {40, 60, 72, 80, 100}) {
    const std::string text = to_terminal(test::rich_run(), false, width);
    const std::size_t begin = text.rfind('\n', text.find("HEAP PEAK")) + 1;
    const std::string titles = text.substr(begin, text.find('\n', begin) - begin);
    const std::size_t row = text.find('\n', begin) + 1;
    const auto words = split_words(std::string_view(text).substr(row, text.find('\n', row) - row));
    ASSERT_GE(words.size(), 4U) << text;
    double sum = 0;
    for (std::size_t i = 1; i + 1 < words.size(); ++i) sum += std::stod(std::string(words[i]));
    EXPECT_NEAR(sum, std::stod(std::string(words.back())), 0.05 * static_cast<double>(words.size()))
        << width << "\n"
        << text;
    // The unused memory of the arena is the second largest kind.
    EXPECT_EQ(titles.find("ARENA SLACK") != std::string::npos, width >= 72) << titles;
    EXPECT_EQ(text.find("includes") != std::string::npos, titles.find("WORKSPACE") == std::string::npos);
  }
}

TEST(TerminalSummary, KeepsTheMainFiguresOnNarrowTerminals) {
  const std::string narrow = to_terminal(test::typical_run(), false, 48);
  EXPECT_THAT(narrow, HasSubstr("CHARGED"));
  EXPECT_THAT(narrow, HasSubstr("P50"));
  EXPECT_THAT(narrow, HasSubstr("RUN PEAK"));
  EXPECT_THAT(narrow, Not(HasSubstr("P99")));
  EXPECT_THAT(narrow, Not(HasSubstr("UNLOADED")));
}

TEST(TerminalSummary, ShowsTheStatusOfAPipelineWithoutARate) {
  BenchResult run = test::pipeline_run();
  run.pipeline->status = ModelStatus::oom;
  run.pipeline->fps.reset();
  EXPECT_THAT(to_terminal(run, false, 200), HasSubstr("Pipeline of 3 models: out of memory, peak "));
}

TEST(TerminalSummary, MarksPercentilesWithoutABound) {
  const std::string few = to_terminal(test::charged_run(), false, 100);
  EXPECT_THAT(few, HasSubstr("N"));
  EXPECT_THAT(few, HasSubstr("105.1*"));
  EXPECT_THAT(few, HasSubstr("* Too few frames for a 99 % confidence bound (P90 needs 64 frames, P99 662):"));
  EXPECT_THAT(to_terminal(test::typical_run(), false, 100), Not(HasSubstr("*")));
}

TEST(TerminalSummary, ListsAllNoisyModelsInOneLine) {
  const std::string text = to_terminal(test::charged_run(), false, 200);
  // One of the two models has 8 frames, which are too few for this warning.
  EXPECT_THAT(
      text,
      HasSubstr("! Latency is noisy (standard deviation over 2.5 % of the mean): blazeface (3.1 %).\n"));
  EXPECT_THAT(text, Not(HasSubstr("inference latency varies")));
  BenchResult run = test::typical_run();
  run.models[0].inference->cv = 0.04;
  run.models[2].inference->cv = 0.03;
  EXPECT_THAT(to_terminal(run, false, 200),
              HasSubstr("for 2 of 3 models: yolox_nano_416 (4.0 %), yolox_nano_1280 (3.0 %)"));
}

// Settings can differ in many values, and the user must be able to type all of them.
TEST(TerminalSummary, NeverCutsSettingsOfTrials) {
  BenchResult run = test::prepared_run();
  ModelResult& model = run.models[0];
  model.name = "a-name-that-takes-most-of-the-line";
  RuntimeSettings settings = model.trials[0].settings;
  settings.device = "cuda:0";
  model.trials[0].settings = settings;
  settings.threads = 16, settings.arena_extend = ArenaExtend::same_as_requested;
  settings.memory_pattern = settings.prepacking = settings.spinning = false;
  settings.graph_level = 2, settings.conv_search = ConvSearch::standard;
  settings.conv_small_workspace = settings.device_graph = true;
  model.trials[3].settings = settings;
  model.settings = settings;
  model.smallest_settings = settings;
  const std::string described = settings.describe();
  for (const int width : {40, 48, 63, 64, 72, 80, 100, 200}) {
    const std::string text = to_terminal(run, false, width);
    EXPECT_LE(widest_line(text), width);
    const std::string tried = text.substr(text.find("Settings tried for"));
    EXPECT_THAT(tried, Not(HasSubstr("…"))) << width;
    for (const std::string_view word : split_words(described))
      EXPECT_THAT(tried, HasSubstr(std::string(word))) << width;
    EXPECT_THAT(tried, HasSubstr("P50")) << width;
    std::string words;
    for (const std::string_view word : split_words(tried)) words += std::string(word) + " ";
    EXPECT_THAT(words, HasSubstr("fastest and smallest")) << width;
  }
}

TEST(TerminalSummary, NotesALimitAboveTheMachinesMemory) {
  BenchResult run = test::typical_run();
  run.limit->bytes = gibibytes(100);
  const std::string note = "the limit of 100.00 GiB is more than this machine's memory of 8.00 GiB";
  EXPECT_THAT(to_terminal(run, false, 200), HasSubstr(note));
  EXPECT_THAT(to_markdown(run), HasSubstr(note));
  run.limit->note = note;  // the limit already has this note
  const std::string text = to_terminal(run, false, 200);
  EXPECT_EQ(text.find(note), text.rfind(note));
}

}  // namespace

}  // namespace headroom::report
