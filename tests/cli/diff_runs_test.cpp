// `headroom diff` of runs of headroom bench, as a person and as a CI job uses it.
#include <fmt/format.h>

#include "cli/command.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

// Real runs of the backend that does what it is told: 20 frames each. What the test is not about is made
// equal: in runs of other processes on a busy machine either the memory or the time differs by chance now and
// then.
class DiffRuns : public testing::Test {
 protected:
  static void take_from_quick(const char* name, const char* figures) {
    const auto file_of = [](const char* run) { return bench_->path() / run / "report.json"; };
    const auto quick = parse_json(read_text(file_of("quick")));
    auto report = parse_json(read_text(file_of(name)));
    ASSERT_TRUE(quick.has_value() && report.has_value());
    ASSERT_TRUE((*quick)["models"][0].contains(figures));
    (*report)["models"][0][figures] = (*quick)["models"][0][figures];
    write_text(file_of(name), report->dump());
  }
  static void SetUpTestSuite() {
    bench_ = new Bench;
    for (const auto& [name, commands] : {std::pair{"quick", "run sleep 2"}, std::pair{"slow", "run sleep 9"},
                                         std::pair{"large", "load allocate 64\nrun sleep 2"}}) {
      const CommandResult result = bench_->run({"--backend", "misbehaving", "--max-frames", "20", "--model",
                                                "m=" + bench_->model(name, commands)});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      fs::rename(bench_->run_folder(), bench_->path() / name);
    }
    take_from_quick("slow", "memory");
    for (const char* times : {"latency_ns", "stages_ns"}) take_from_quick("large", times);
    fs::copy(bench_->path() / "quick/frames/m.csv", bench_->path() / "large/frames/m.csv",
             fs::copy_options::overwrite_existing);
    fs::create_directories(bench_->path() / "several");
    for (const char* copy : {"1", "2", "3"})
      fs::copy(bench_->path() / "quick", bench_->path() / "several" / copy, fs::copy_options::recursive);
  }
  static void TearDownTestSuite() {
    delete bench_;
    bench_ = nullptr;
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), "diff");
    CommandOptions options;
    options.folder = bench_->path();
    return run_headroom(words, options);
  }
  static Bench* bench_;
};
Bench* DiffRuns::bench_ = nullptr;

TEST_F(DiffRuns, TheRunKeepsTheTimesOfItsFrames) {
  const std::string csv = read_text(bench_->path() / "quick/frames/m.csv");
  EXPECT_THAT(csv, StartsWith("decode_ns,preprocess_ns,inference_ns,postprocess_ns,findings,device_ns\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 21);
}

TEST_F(DiffRuns, TheFirstLineIsTheVerdict) {
  const CommandResult slower = run({"quick", "slow"});
  EXPECT_EQ(slower.exit_code, 0) << slower.err;
  EXPECT_THAT(slower.out, StartsWith("B is slower"));
  EXPECT_THAT(slower.out, AllOf(HasSubstr("model file"), HasSubstr("in 100 % of all pairs")));
  const CommandResult same = run({"quick", "quick"});
  EXPECT_THAT(same.out, StartsWith("B is as A: nothing changed"));
}

TEST_F(DiffRuns, JsonHasEveryFigure) {
  const CommandResult result = run({"quick", "slow", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto document = parse_json(result.out);
  ASSERT_TRUE(document.has_value()) << result.out;
  EXPECT_EQ(get_integer(*document, "schema_version"), 1);
  EXPECT_EQ(get_text(*document, "outcome"), "worse");
  const Json& model = (*document)["models"][0];
  EXPECT_EQ(get_text(model, "name"), "m");
  EXPECT_GT(get_number(model, "latency_superiority").value_or(0), 0.9);
  bool has_latency = false;
  for (const Json& metric : model["metrics"]) {
    if (get_text(metric, "name") != "latency") continue;
    has_latency = true;
    EXPECT_GT(get_integer(metric, "change_ns").value_or(0), 5'000'000);
    EXPECT_EQ(get_bool(metric, "differs"), true);
    EXPECT_EQ(get_text(metric, "spread"), "allowed");
  }
  EXPECT_TRUE(has_latency);
}

TEST_F(DiffRuns, SeveralRunsASide) {
  const CommandResult folder = run({"several", "slow"});
  EXPECT_EQ(folder.exit_code, 0) << folder.err;
  EXPECT_THAT(folder.out, AllOf(StartsWith("B is slower"), HasSubstr("several/1 and 2 more")));
  const CommandResult listed = run({"several/1", "several/2", "several/3", ":", "several"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("spread of 3 and 3 runs"));
  EXPECT_THAT(run({"several/1", "several/2", "several/3"}).err,
              HasSubstr("takes two things to compare: 3 given"));
  EXPECT_THAT(run({":", "several/1"}).err, HasSubstr("takes two sides"));
}

TEST_F(DiffRuns, FailOnNamesTheBreach) {
  const CommandResult breach = run({"quick", "slow", "--fail-on", "run_peak>+5%,p50>+10%"});
  EXPECT_EQ(breach.exit_code, 1);
  EXPECT_THAT(breach.err, AllOf(HasSubstr("error: p50 of m went from"), HasSubstr("'p50>+10%'")));
  EXPECT_THAT(breach.out, StartsWith("B is slower"));
  EXPECT_EQ(run({"quick", "quick", "--fail-on", "p50>+10%"}).exit_code, 0);
  EXPECT_EQ(run({"quick", "slow", "--fail-on", "p50>+10%", "--fail-on", "fps<1"}).exit_code, 1);
  const CommandResult wrong = run({"quick", "slow", "--fail-on", "p50>10%"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("needs a sign"));
  EXPECT_TRUE(wrong.out.empty());
}

TEST_F(DiffRuns, MarkdownIsForAComment) {
  const CommandResult result = run({"quick", "slow", "--markdown", "--fail-on", "p50>+10%"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(StartsWith(":red_circle: **B is slower"), HasSubstr("**Gate**"), HasSubstr("| latency")));
}

TEST_F(DiffRuns, AReportAndAFootprintAreComparedToo) {
  EXPECT_THAT(run({"quick/report.json", "slow/report.json"}).out, StartsWith("B is slower"));
  const CommandResult footprints = run({"quick/footprints/m.json", "large/footprints/m.json"});
  EXPECT_EQ(footprints.exit_code, 0) << footprints.err;
  EXPECT_THAT(footprints.out, StartsWith("B is larger"));
}

TEST_F(DiffRuns, ErrorsAreOneSentence) {
  const auto error = [&](Words words) {
    const CommandResult result = run(std::move(words));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"quick", "gone"}), HasSubstr("cannot open gone"));
  EXPECT_THAT(error({"quick", "quick/footprints/m.json"}),
              HasSubstr("one is a run of headroom bench and the other a footprint"));
  EXPECT_THAT(error({"quick", "quick/footprints"}), HasSubstr("no run of headroom bench"));
  write_text(bench_->path() / "text.txt", "hello");
  EXPECT_THAT(error({"text.txt", "text.txt"}), HasSubstr("nothing that can be compared"));
  write_text(bench_->path() / "empty", "");
  EXPECT_THAT(error({"empty", "empty"}), HasSubstr("it is empty"));
  EXPECT_THAT(error({"quick", "slow", "--fail-above", "5%"}), HasSubstr("--fail-on"));
  EXPECT_THAT(error({"quick", "slow", "--csv"}), HasSubstr("--csv is for recordings"));
  EXPECT_THAT(error({"quick", "slow", "--json", "--markdown"}), HasSubstr("views of their own"));
  EXPECT_THAT(error({"quick"}), HasSubstr("takes two things"));
  EXPECT_THAT(error({"quick", "slow", "--fail-on", "gpu_run_peak>+5%"}), HasSubstr("cannot be judged"));
}

TEST_F(DiffRuns, DamagedFilesAreSaid) {
  fs::copy(bench_->path() / "quick", bench_->path() / "damaged", fs::copy_options::recursive);
  write_text(bench_->path() / "damaged/frames/m.csv", "not a table\n");
  const CommandResult result = run({"quick", "damaged"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("damaged/frames/m.csv has no times of frames"));
  fs::remove_all(bench_->path() / "damaged/frames");
  EXPECT_EQ(run({"quick", "damaged"}).exit_code, 0);  // of an earlier version of Headroom
  write_text(bench_->path() / "damaged/report.json", "{\"schema_version\": 1, \"run_name\": 7}");
  EXPECT_THAT(run({"quick", "damaged"}).err, HasSubstr("run_name"));
}

// Two logs of this very machine, in one of which the free memory is halved.
TEST(DiffLogs, SaysWhichFiguresDiffer) {
  TemporaryFolder folder;
  std::string before, after;
  for (int i = 0; i < 60; ++i) {
    const auto line = [&](double free) {
      return fmt::format(
          "{{\"time_ns\": {}, \"ram_total_bytes\": 8000000000, \"ram_free_bytes\": {}, "
          "\"cpu_percent\": {}}}\n",
          i * 1'000'000'000LL, static_cast<long long>(free) + i % 7 * 1000, 20 + i % 5);
    };
    before += line(4e9);
    after += line(2e9);
  }
  write_text(folder.path() / "a.jsonl", before);
  write_text(folder.path() / "b.jsonl", after);
  write_text(folder.path() / "garbage.jsonl", "{\"time_ns\": \"soon\"}\n");
  CommandOptions options;
  options.folder = folder.path();
  const CommandResult screen = run_headroom({"diff", "a.jsonl", "b.jsonl"}, options);
  EXPECT_EQ(screen.exit_code, 0) << screen.err;
  EXPECT_THAT(screen.out, AllOf(StartsWith("1 of "), HasSubstr("differs"), HasSubstr("60 samples")));
  const CommandResult json = run_headroom({"diff", "a.jsonl", "b.jsonl", "--json"}, options);
  const auto document = parse_json(json.out);
  ASSERT_TRUE(document.has_value()) << json.out;
  EXPECT_EQ(get_text((*document)["figures"][0], "name"), "ram_free_bytes");
  EXPECT_EQ(get_bool((*document)["figures"][0], "differs"), true);
  EXPECT_EQ(get_bool((*document)["figures"][1], "differs"), false);
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "b.jsonl", "--markdown"}, options).out, StartsWith("**1 of "));
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "a.jsonl"}, options).out, StartsWith("B is as A"));
  for (const Words& words :
       {Words{"diff", "a.jsonl", "garbage.jsonl"}, Words{"diff", "a.jsonl", "a.jsonl", "--by", "layer"},
        Words{"diff", "a.jsonl", "b.jsonl", ":", "a.jsonl"},
        Words{"diff", "a.jsonl", "b.jsonl", "--fail-on", "p50>+5%"}}) {
    const CommandResult wrong = run_headroom(words, options);
    EXPECT_EQ(wrong.exit_code, 2) << wrong.out;
    EXPECT_EQ(std::count(wrong.err.begin(), wrong.err.end(), '\n'), 1) << wrong.err;
  }
}

}  // namespace
}  // namespace headroom::test
