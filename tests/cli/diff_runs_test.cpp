// `headroom diff` of runs of headroom bench, as a user and as a CI job run it.
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/diff_runs_fixture.h"
#include "cli/documented_keys.h"
#include "cli/sized_terminal.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(DiffRuns, ARunStoresItsFrameTimes) {
  const std::string csv = read_text(bench_->path() / "quick/frames/m.csv");
  EXPECT_THAT(csv, StartsWith("decode_ns,preprocess_ns,inference_ns,postprocess_ns,findings,device_ns\n"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 21);
}

TEST_F(DiffRuns, TheFirstLineIsTheVerdict) {
  EXPECT_THAT(run({"several", "slower"}),
              Ends(0, AllOf(StartsWith("B is slower"),
                            AllOf(HasSubstr("model file"),
                                  testing::ContainsRegex("in (9[0-9]|100) % of all pairs")))));
  EXPECT_THAT(run({"quick", "several/1"}).out,
              StartsWith("No change of memory was found. One run per side shows only changes beyond"));
}

// However large the difference is, one run per side does not show whether it is one.
TEST_F(DiffRuns, OneRunPerSideDoesNotJudgeLatency) {
  const std::string words = "Latency differences are not separable from noise with one run each";
  const CommandResult single = run({"quick", "slow"});
  EXPECT_THAT(single.out, AllOf(StartsWith("No change of memory was found."), HasSubstr("not separable"),
                                Not(HasSubstr("slower")), Not(HasSubstr("of all pairs"))));
  const Json document = json_of(run({"quick", "slow", "--json"}));
  EXPECT_THAT(get_text(document, "verdict"),
              AllOf(HasSubstr(words), HasSubstr("Make more runs: headroom bench --repeat 8"),
                    HasSubstr("Differences that may be chance: p50 +")));
  EXPECT_EQ(get_text(document, "outcome"), "unknown");
  for (const Json& metric : document["models"][0]["metrics"])
    if (get_text(metric, "name") == "latency") {
      EXPECT_EQ(get_text(metric, "spread"), "none");
      EXPECT_EQ(get_bool(metric, "judged"), false);
      EXPECT_FALSE(metric.contains("change_low_percent") || metric.contains("p"));
    }
  EXPECT_THAT(run({"quick", "large"}).out, AllOf(StartsWith("B is larger"), HasSubstr(words)));
}

// The same run by its folder, by a copy, or among several runs: nothing changed, so only value rules can be
// judged.
TEST_F(DiffRuns, ReportsTheSameRunOnBothSides) {
  fs::copy(bench_->path() / "quick", bench_->path() / "copy", fs::copy_options::recursive);
  for (const char* other : {"quick", "copy"}) {
    EXPECT_THAT(run({"quick", other, "--fail-on", "p50>+10%"}),
                Ends(0,
                     AllOf(StartsWith("A and B are the same run: name one from before the change"),
                           Not(HasSubstr("of all pairs")), Not(HasSubstr("Notes"))),
                     HasSubstr("A and B are the same, so these rules were not checked: p50>+10%")));
  }
  fs::remove_all(bench_->path() / "copy");
  EXPECT_EQ(run({"quick", "quick", "--fail-on", "run_peak>1KiB,p50>+10%"}).exit_code, 1);
  EXPECT_THAT(run({"several/1", "several/2", "several/3", ":", "several"}).out,
              StartsWith("A and B are the same runs"));
  // One of several runs is on both sides.
  EXPECT_THAT(run({"several/1", "several/2", ":", "several/2", "several/3"}).out,
              AllOf(Not(StartsWith("A and B are the same")), HasSubstr("(B) are the same run")));
  const Json document = json_of(run({"quick", "quick", "--json", "--fail-on", "p50>+10%"}));
  EXPECT_EQ(get_text(document, "outcome"), "same");
  EXPECT_THAT(get_text(document, "not_judged"), HasSubstr("p50>+10%"));
}

// A narrow terminal drops the intervals first, then A, and the output names what was dropped. The widths at
// which they go depend on the measured figures.
TEST_F(DiffRuns, ANarrowTerminalShowsBothSides) {
  for (const int columns : {40, 50, 60, 70, 80, 120}) {
    SizedTerminal terminal(columns);
    if (!terminal.is_there()) GTEST_SKIP() << absent_message("a pseudo-terminal");
    const std::string text = terminal.output_of({"diff", "several", "slower"}, {.folder = bench_->path()});
    SCOPED_TRACE(text);
    EXPECT_LE(widest_line(text), columns);
    EXPECT_THAT(text, AllOf(HasSubstr("FIGURE"), HasSubstr("worse")));
    const bool has_intervals = text.find("CHANGE (INTERVAL)") != text.npos,
               has_a = text.find(" A ") < text.find(" CHANGE");
    EXPECT_EQ(text.find("A wider terminal also shows: ") == text.npos, has_intervals);
    EXPECT_EQ(text.find("A wider terminal also shows: A, the") == text.npos, has_a);
    EXPECT_TRUE(has_a || !has_intervals);
    if (columns == 40) {
      EXPECT_FALSE(has_intervals);
    }
    if (columns == 120) {
      EXPECT_TRUE(has_intervals);
    }
  }
}

TEST_F(DiffRuns, JsonHasEveryFigure) {
  const Json document = json_of(run({"several", "slower", "--json"}));
  EXPECT_EQ(get_integer(document, "schema_version"), 1);
  EXPECT_EQ(get_text(document, "outcome"), "worse");
  const Json& model = document["models"][0];
  EXPECT_EQ(get_text(model, "name"), "m");
  EXPECT_GT(get_number(model, "latency_superiority").value_or(0), 0.9);
  bool has_latency = false;
  for (const Json& metric : model["metrics"]) {
    if (get_text(metric, "name") != "latency") continue;
    has_latency = true;
    EXPECT_GT(get_integer(metric, "change_ns").value_or(0), 5'000'000);
    EXPECT_EQ(get_bool(metric, "differs"), true);
    EXPECT_EQ(get_text(metric, "spread"), "measured");
  }
  EXPECT_TRUE(has_latency);
}

TEST_F(DiffRuns, EveryKeyOfJsonIsDocumented) {
  for (const Words& words : {Words{"several", "slower", "--json"}, Words{"quick", "large", "--json"},
                             Words{"quick", "slow", "--json", "--fail-on", "gpu_run_peak>+5%"}}) {
    const Json document = json_of(run(words));
    EXPECT_THAT(undocumented_keys(document, "diff.md"), testing::IsEmpty());
  }
  const Json judged = json_of(run({"quick", "slow", "--json", "--fail-on", "gpu_run_peak>+5%"}));
  EXPECT_THAT(get_text(judged, "not_judged"), HasSubstr("gpu_run_peak"));
}

TEST_F(DiffRuns, ComparesSeveralRunsPerSide) {
  EXPECT_THAT(run({"several", "slower"}),
              Ends(0, AllOf(StartsWith("B is slower"), HasSubstr("several/1 and 2 more"))));
  EXPECT_THAT(run({"several/1", "several/2", "several/3", ":", "others"}),
              Ends(0, HasSubstr("spread of 3 and 3 runs")));
  EXPECT_THAT(run({"several/1", "several/2", "several/3"}).err, HasSubstr("needs two inputs: 3 given"));
  EXPECT_THAT(run({":", "several/1"}).err, HasSubstr("needs two sides"));
}

// A run counted twice would make the noise look smaller.
TEST_F(DiffRuns, ARunGivenTwiceCountsOnce) {
  const auto before = [&](Words words) {
    words.emplace_back("--json");
    return (*parse_json(run(std::move(words)).out))["before"].size();
  };
  EXPECT_EQ(before({"several/1", "several/1", "several/2/../1", ":", "slow"}), 1U);
  fs::create_directory_symlink("3", bench_->path() / "several/latest");
  EXPECT_EQ(before({"several", "slow"}), 3U);
  fs::remove(bench_->path() / "several/latest");
}

// Copies occur if a job downloads a run twice, or if a backup is inside the folder of runs.
TEST_F(DiffRuns, ACopyOfARunCountsOnce) {
  fs::create_directories(bench_->path() / "copies");
  for (const char* copy : {"copies/1", "copies/2"})
    fs::copy(bench_->path() / "quick", bench_->path() / copy, fs::copy_options::recursive);
  const CommandResult result = run({"copies", "slow"});
  EXPECT_THAT(result.out, HasSubstr("skipped in A: copies/2 is a copy of copies/1"));
  EXPECT_EQ((*parse_json(run({"copies", "slow", "--json"}).out))["before"], Json::array({"copies/1"}));
  EXPECT_THAT(run({"quick", "copies/2"}).out, StartsWith("A and B are the same run"));
  EXPECT_THAT(run({"quick", "several"}).out, Not(HasSubstr("same run")));
  fs::remove_all(bench_->path() / "copies");
}

TEST_F(DiffRuns, FailOnNamesTheBreach) {
  EXPECT_THAT(run({"several", "slower", "--fail-on", "run_peak>+5%,p50>+10%"}),
              Ends(1, StartsWith("B is slower"),
                   AllOf(HasSubstr("error: p50 of m went from"), HasSubstr("'p50>+10%'"))));
  EXPECT_EQ(run({"quick", "quick", "--fail-on", "p50>+10%"}).exit_code, 0);
  EXPECT_EQ(run({"several", "slower", "--fail-on", "p50>+10%", "--fail-on", "fps<1"}).exit_code, 1);
  EXPECT_THAT(run({"quick", "slow", "--fail-on", "p50>10%"}), Ends(2, "", HasSubstr("needs a sign")));
}

TEST_F(DiffRuns, LatencyGateNeedsRepeatedRuns) {
  EXPECT_THAT(
      run({"quick", "slow", "--fail-on", "run_peak>+5%,p50>+10%"}),
      Ends(2, StartsWith("No change of memory was found."),
           "error: cannot check --fail-on 'p50>+10%': a change of p50 is not separable from noise with one "
           "run each; make three or more runs of each side: headroom bench --repeat 8\n"));
  EXPECT_EQ(run({"quick", "slow", "--fail-on", "p50>1ms"}).exit_code, 1) << "B's own value";
  EXPECT_EQ(run({"quick", "large", "--fail-on", "run_peak>+5%,p50>+10%"}).exit_code, 1) << "memory is judged";
}

TEST_F(DiffRuns, MarkdownSuitsAPullRequestComment) {
  EXPECT_THAT(run({"several", "slower", "--markdown", "--fail-on", "p50>+10%"}),
              Ends(1, AllOf(StartsWith(":red_circle: **B is slower"), HasSubstr("**Gate**"),
                            HasSubstr("| latency"))));
}

TEST_F(DiffRuns, ComparesReportsAndFootprints) {
  EXPECT_THAT(run({"quick/report.json", "large/report.json"}).out, StartsWith("B is larger"));
  EXPECT_THAT(run({"quick/footprints/m.json", "large/footprints/m.json"}),
              Ends(0, StartsWith("B is larger")));
}

TEST_F(DiffRuns, ErrorsAreOneSentence) {
  const auto error = [&](Words words) {
    const CommandResult result = run(std::move(words));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"quick", "gone"}), HasSubstr("cannot open gone"));
  EXPECT_THAT(error({"quick", "quick/footprints/m.json"}),
              HasSubstr("the first is a run of headroom bench, the second is a footprint"));
  EXPECT_THAT(error({"quick", "quick/footprints"}), HasSubstr("not a run of headroom bench"));
  write_text(bench_->path() / "text.txt", "hello");
  EXPECT_THAT(error({"text.txt", "text.txt"}), HasSubstr("cannot compare text.txt"));
  write_text(bench_->path() / "empty", "");
  EXPECT_THAT(error({"empty", "empty"}), HasSubstr("it is empty"));
  EXPECT_THAT(error({"quick", "slow", "--fail-above", "5%"}), HasSubstr("--fail-on"));
  EXPECT_THAT(error({"quick", "slow", "--csv"}), HasSubstr("--csv works with recordings only"));
  EXPECT_THAT(error({"quick", "slow", "--json", "--markdown"}), HasSubstr("cannot be combined"));
  EXPECT_THAT(error({"quick"}), HasSubstr("needs two inputs"));
  EXPECT_THAT(error({"quick", "slow", "--fail-on", "gpu_run_peak>+5%"}), HasSubstr("cannot check --fail-on"));
}

TEST_F(DiffRuns, ReportsDamagedFiles) {
  fs::copy(bench_->path() / "quick", bench_->path() / "damaged", fs::copy_options::recursive);
  write_text(bench_->path() / "damaged/frames/m.csv", "not a table\n");
  EXPECT_THAT(run({"quick", "damaged"}),
              Ends(2, testing::_, HasSubstr("no frame times in damaged/frames/m.csv")));
  std::string cut = read_text(bench_->path() / "quick/frames/m.csv");
  cut.resize(cut.find('\n', cut.size() / 2) + 1);
  write_text(bench_->path() / "damaged/frames/m.csv", cut);
  EXPECT_THAT(run({"quick", "damaged"}).err,
              AllOf(HasSubstr("frames but report.json has 20"), HasSubstr("the file is cut off")));
  fs::remove_all(bench_->path() / "damaged/frames");
  EXPECT_EQ(run({"quick", "damaged"}).exit_code, 0);  // like a run of an earlier version of Headroom
  write_text(bench_->path() / "damaged/report.json", "{\"schema_version\": 1, \"run_name\": 7}");
  EXPECT_THAT(run({"quick", "damaged"}).err, HasSubstr("run_name"));
}

}  // namespace
}  // namespace headroom::test
