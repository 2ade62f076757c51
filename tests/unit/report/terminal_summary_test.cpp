#include "base/display_width.h"
#include "base/text.h"
#include "report/run/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
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

TEST(TerminalSummary, WarnsThatARunIsIncomplete) {
  EXPECT_THAT(to_terminal(test::incomplete_run(), false, 80),
              testing::StartsWith("! This run was interrupted"));
  EXPECT_THAT(to_terminal(test::typical_run(), false, 80), Not(HasSubstr("interrupted")));
}

TEST(TerminalSummary, MarksPercentilesWithoutABound) {
  const std::string few = to_terminal(test::charged_run(), false, 100);
  EXPECT_THAT(few, HasSubstr("N"));
  EXPECT_THAT(few, HasSubstr("105.1*"));
  EXPECT_THAT(few, HasSubstr("* Too few frames for a 99 % confidence bound (P90 needs 64 frames, P99 662):"));
  EXPECT_THAT(to_terminal(test::typical_run(), false, 100), Not(HasSubstr("*")));
}

TEST(TerminalSummary, ComparesChargedMemoryWithTheLimit) {
  const std::string text = to_terminal(test::charged_run(), false, 80);
  EXPECT_THAT(text, HasSubstr("79.3 %"));
  EXPECT_THAT(text, Not(HasSubstr("108.")));  // the resident peak's share
  EXPECT_THAT(text, HasSubstr("104.5"));      // the resident peak in the table by phase
}

TEST(TerminalSummary, ShowsDetectionsAndEveryPhaseAtEightyColumns) {
  const std::string text = to_terminal(test::typical_run(), false, 80);
  for (const char* title :
       {"DET", "START", "RUNTIME", "LOADED", "LOAD PEAK", "RUN MEAN", "RUN PEAK", "UNLOADED"})
    EXPECT_THAT(text, HasSubstr(title));
  EXPECT_THAT(text, HasSubstr("5.4"));
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

TEST(TerminalSummary, ListsSkippedModelsLast) {
  const std::string text = to_terminal(test::charged_run(), false, 80);
  EXPECT_LT(text.find("\nblazeface"), text.find("\nyolo11s_rgb"));
}

TEST(TerminalSummary, ShowsTuningTrialsOfAPreparedRun) {
  const std::string text = to_terminal(test::prepared_run(), false, 80);
  EXPECT_THAT(text, HasSubstr("prepared"));
  EXPECT_THAT(text, HasSubstr("fastest that fits"));
  EXPECT_THAT(text, HasSubstr("smallest within 5 %"));
  EXPECT_THAT(text, Not(HasSubstr("No peak was measured")));
  EXPECT_THAT(text, Not(HasSubstr("FPS")));
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
