// Every view of every sample run against its golden file. After an intended change:
//   HEADROOM_UPDATE_GOLDEN=1 build/release/tests/report_test --gtest_filter='*Golden*'
// and read the difference with git before you commit it.
#include <functional>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "report/run/report_json.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "report/text_layout.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Golden : public testing::TestWithParam<test::NamedRun> {
 protected:
  void compare(const std::string& file, const std::string& text) {
    test::compare_with_golden("report/" + GetParam().name + "/" + file, text);
  }
};

TEST_P(Golden, ReportJson) { compare("report.json", to_text(to_json(GetParam().result))); }
TEST_P(Golden, ReportMarkdown) { compare("report.md", to_markdown(GetParam().result)); }
TEST_P(Golden, SummaryCsv) { compare("summary.csv", to_csv(GetParam().result)); }
TEST_P(Golden, Terminal) { compare("terminal.txt", to_terminal(GetParam().result, false, 80)); }

INSTANTIATE_TEST_SUITE_P(Runs, Golden, testing::ValuesIn(test::sample_runs()),
                         [](const auto& run) { return run.param.name; });

// Both views of the run's first model.
std::string vos_views(const BenchResult& run) { return to_terminal(run, false, 80) + to_markdown(run); }

TEST(VosViews, NameWherePromptsComeFrom) {
  BenchResult run = test::vos_run();
  run.models.resize(1);
  run.source->prompted_by_mask = 0;
  EXPECT_THAT(vos_views(run), AllOf(HasSubstr("edgetam_points    file  "), HasSubstr("prompt: prompts file;"),
                                    Not(HasSubstr("prompt: points"))));
  run.source->prompted_by_file = 0;
  EXPECT_THAT(vos_views(run), AllOf(HasSubstr("edgetam_points  points  "), HasSubstr("prompt: points;"),
                                    Not(HasSubstr("file;"))));
}

TEST(VosViews, ShowTheGrowthOfGpuMemoryWithItsInterval) {
  BenchResult run = test::vos_run();
  run.models.resize(1);
  run.models[0].vos->gpu_per_frame = GrowthSlope{2048, 1024, 4096, 128};
  EXPECT_THAT(to_terminal(run, false, 200),
              HasSubstr("edgetam_points +0.000 (-0.000 to +0.001); edgetam_points "
                        "on the GPU +0.002 (+0.001 to +0.004)."));
}

TEST(VosViews, ShowTheSizesOfTheModelsOnly) {
  BenchResult run = test::vos_run();
  run.models[1].vos->side = 1024;
  EXPECT_THAT(to_markdown(run), AllOf(HasSubstr("- **Model input**: 512 × 512, 1024 × 1024\n"),
                                      Not(HasSubstr("image size 640")), Not(HasSubstr("confidence 0.25"))));
  for (ModelResult& model : run.models) model.vos.reset();  // none could be loaded
  EXPECT_THAT(to_markdown(run), AllOf(Not(HasSubstr("Model input")), Not(HasSubstr("image size 640"))));
}

struct VerdictCase {
  BenchResult run;
  std::function<void(BenchResult& run)> change;
  Tone tone = Tone::neutral;
  std::string sentence;     // a part of it
  std::string detail = {};  // the begin of the only one, if there is any
};

// The goldens have the other verdicts.
TEST(Verdict, NamesTheOutcomeAndEachFailure) {
  const VerdictCase cases[] = {
      {test::typical_run(), [](BenchResult& run) { run.limit->type = LimitType::unavailable; }, Tone::neutral,
       "nothing enforced this limit"},
      {test::typical_run(),
       [](BenchResult& run) {
         run.limit->type = LimitType::unavailable;
         run.limit->mechanism = LimitMechanism::none;
         run.models[0].memory.within_limit = false;
         run.models[0].memory.violations = 3;
       },
       Tone::bad, "2 of 3 models stayed below 512.0 MiB, but nothing enforced this limit; 1 exceeded it",
       "yolox_nano_416: over the limit of 512.0 MiB in 3 samples"},
      {test::typical_run(),
       [](BenchResult& run) {
         GpuMemory& gpu = run.models[0].gpu_memory.emplace_back();
         gpu.device = "cuda:0";
         gpu.limit = gibibytes(1);
         gpu.run_peak = mebibytes(1536);
         gpu.within_limit = false;
       },
       Tone::bad, "All 3 models stayed inside the hard limit of 512.0 MiB",
       "yolox_nano_416: over the limit of 1.00 GiB of cuda:0, with a peak of 1.50 GiB"},
      {test::typical_run(),
       [](BenchResult& run) {
         for (ModelResult& model : run.models) model.memory.cgroup_peak.reset();
       },
       Tone::good, "yolox_nano_1280, 128.4 MiB resident"},
      // In one of the extra runs.
      {test::typical_run(), [](BenchResult& run) { run.complete = false; }, Tone::neutral,
       "All 3 models were measured. The run was cut short. They stayed inside the hard limit of 512.0 MiB"},
      {test::incomplete_run(), [](BenchResult& run) { run.models.erase(run.models.begin()); }, Tone::neutral,
       "None of the 2 models was measured. The run was cut short"},
      {test::prepared_run(), [](BenchResult& run) { run.models[1].status = ModelStatus::crashed; }, Tone::bad,
       "1 of 2 models is prepared but not measured", "text: crashed"},
      {test::pipeline_run(),
       [](BenchResult& run) {
         run.pipeline->status = ModelStatus::oom;
         run.pipeline->error = "killed";
       },
       Tone::bad, "All 3 models ran", "pipeline: out of memory: killed"},
      // The user stopped the run during the pipeline, so the pipeline did not fail.
      {test::pipeline_run(),
       [](BenchResult& run) {
         run.complete = false;
         run.pipeline->status = ModelStatus::failed;
         run.pipeline->error = kCutShort;
         run.pipeline->died_in = Phase::model_loaded;
       },
       Tone::neutral, "The run was cut short"},
      {test::empty_run(), [](BenchResult& run) { run.models.emplace_back(); }, Tone::neutral,
       "No model was measured"}};
  for (const auto& [before, change, tone, sentence, detail] : cases) {
    BenchResult run = before;
    change(run);
    const Verdict verdict = verdict_of(run);
    EXPECT_EQ(verdict.tone, tone) << sentence;
    EXPECT_THAT(verdict.sentence, HasSubstr(sentence));
    ASSERT_EQ(verdict.details.size(), detail.empty() ? 0U : 1U) << sentence;
    if (!detail.empty()) {
      EXPECT_THAT(verdict.details[0], StartsWith(detail));
    }
  }
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

TEST(Verdict, NamesTheGpuLimit) {
  BenchResult run = test::gpu_run();
  EXPECT_EQ(verdict_of(run).sentence,
            "1 of 2 models succeeded. GPU memory stayed inside the hard limit of 600.0 MiB. "
            "Closest to it: yolox_nano_640, 321.0 MiB on cuda:0, 53.5 % of its limit");
  run.parallel.reset();
  run.models.pop_back();
  EXPECT_EQ(verdict_of(run).tone, Tone::good);
  EXPECT_THAT(verdict_of(run).sentence, AllOf(HasSubstr("ran. No limit on host memory. Peak: "),
                                              HasSubstr("stayed inside the hard limit of 600.0 MiB")));
  run.models.push_back(run.models[0]);
  run.models[1].gpu_memory[0].device = "cuda:1";
  run.models[1].gpu_memory[0].limit = mebibytes(800);
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("limit of 600.0 MiB on cuda:0 and 800.0 MiB on cuda:1"));
  run.models[1].gpu_memory[0].within_limit = false;
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("GPU memory exceeded the hard limit of"));
  run.gpu_limit->type = LimitType::unavailable;
  EXPECT_THAT(verdict_of(run).sentence, HasSubstr("Nothing enforced the GPU memory limit of"));
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

TEST(TerminalSummary, UsesColoursOnlyOnRequestAndKeepsColumnsAligned) {
  const std::string plain = to_terminal(test::fallen_run(), false, 80);
  std::string coloured = to_terminal(test::fallen_run(), true, 80);
  EXPECT_THAT(coloured, HasSubstr("\033[31m"));
  for (std::size_t at; (at = coloured.find('\033')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, plain);
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

TEST(TerminalSummary, ListsAllNoisyModelsInOneLine) {
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

TEST(FrameTimesCsv, ReadsBackWhatItWrote) {
  const std::vector<FrameTimes> frames{{{100}, {20}, {3000}, {5}, 2},
                                       {{0}, {0}, {2999}, {1}, 0, Nanoseconds{2500}}};
  std::string text(kFrameTimesHeader);
  append_csv(text, frames);
  EXPECT_EQ(text,
            "decode_ns,preprocess_ns,inference_ns,postprocess_ns,findings,device_ns\n"
            "100,20,3000,5,2,\n0,0,2999,1,0,2500\n");
  const auto read = read_frame_times(text, "m.csv");
  ASSERT_TRUE(read.has_value()) << read.error().sentence();
  EXPECT_EQ(*read, frames);
  EXPECT_TRUE(read_frame_times(std::string(kFrameTimesHeader), "m.csv")->empty());
}

TEST(FrameTimesCsv, ReportsTheErrorAndItsLine) {
  const std::string header(kFrameTimesHeader);
  const auto error = [](const std::string& text) {
    return read_frame_times(text, "m.csv").error().sentence();
  };
  EXPECT_THAT(error(""), HasSubstr("no frame times in m.csv"));
  EXPECT_THAT(error("time,value\n1,2\n"), HasSubstr("the first line is not decode_ns"));
  EXPECT_THAT(error(header + "1,2,3,4,5,\n1,2,3\n"), HasSubstr("invalid frame in m.csv:3"));
  EXPECT_THAT(error(header + "1,2,-3,4,5,\n"), HasSubstr("m.csv:2"));
  EXPECT_THAT(error(header + "1,2,9999999999999999999,4,5,\n"), HasSubstr("m.csv:2"));
  EXPECT_THAT(error(header + "1,2,3,4,5,x\n"), HasSubstr("m.csv:2"));
}

}  // namespace
}  // namespace headroom::report
