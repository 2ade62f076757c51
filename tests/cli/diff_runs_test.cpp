// `headroom diff` of runs of headroom bench, as a person and as a CI job uses it.
#include <fmt/format.h>

#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/documented_keys.h"
#include "cli/sized_terminal.h"

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
    for (const char* folder : {"several", "others"}) {
      fs::create_directories(bench_->path() / folder);
      for (const char* number : {"1", "2", "3"}) copy_of_quick(fs::path(folder) / number);
    }
  }
  // Another run of the same figures: with its name it would be a copy, and count once.
  static void copy_of_quick(const fs::path& name) {
    const fs::path run = bench_->path() / name;
    fs::copy(bench_->path() / "quick", run, fs::copy_options::recursive);
    auto report = parse_json(read_text(run / "report.json"));
    ASSERT_TRUE(report.has_value());
    (*report)["run_name"] = name.string();
    write_text(run / "report.json", report->dump());
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
  EXPECT_THAT(run({"quick", "several/1"}).out, StartsWith("No change was found. One run a side"));
}

// By its folder, a copy of it, or a side of several: nothing can have changed, and only values can be judged.
TEST_F(DiffRuns, TheSameRunOnBothSidesIsSaidAtOnce) {
  fs::copy(bench_->path() / "quick", bench_->path() / "copy", fs::copy_options::recursive);
  for (const char* other : {"quick", "copy"}) {
    const CommandResult same = run({"quick", other, "--fail-on", "p50>+10%"});
    EXPECT_EQ(same.exit_code, 0);
    EXPECT_THAT(same.out, AllOf(StartsWith("A and B are the same run, so there is nothing to compare"),
                                Not(HasSubstr("of all pairs")), Not(HasSubstr("To be known"))));
    EXPECT_THAT(same.err, HasSubstr("A and B are the same, so no change is judged: p50>+10%"));
  }
  fs::remove_all(bench_->path() / "copy");
  EXPECT_EQ(run({"quick", "quick", "--fail-on", "run_peak>1KiB,p50>+10%"}).exit_code, 1);
  EXPECT_THAT(run({"several/1", "several/2", "several/3", ":", "several"}).out,
              StartsWith("A and B are the same runs"));
  // One of several is on both sides.
  EXPECT_THAT(run({"several/1", "several/2", ":", "several/2", "several/3"}).out,
              AllOf(Not(StartsWith("A and B are the same")), HasSubstr("are the same run, which is")));
  const auto document = parse_json(run({"quick", "quick", "--json", "--fail-on", "p50>+10%"}).out);
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(get_text(*document, "outcome"), "same");
  EXPECT_THAT(get_text(*document, "not_judged"), HasSubstr("p50>+10%"));
}

// The intervals go before what a figure was, and what is left out is said.
TEST_F(DiffRuns, ANarrowTerminalShowsBothSides) {
  CommandOptions options;
  options.folder = bench_->path();
  for (const int columns : {60, 40}) {
    SizedTerminal terminal(columns);
    if (!terminal.is_there()) GTEST_SKIP() << absent_message("a pseudo-terminal");
    const std::string text = terminal.output_of({"diff", "quick", "slow"}, options);
    EXPECT_LE(widest_line(text), columns) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("FIGURE"), HasSubstr("worse"), Not(HasSubstr("INTERVAL"))));
    EXPECT_THAT(text, HasSubstr(columns == 60 ? "A wider terminal also shows: the intervals."
                                              : "A wider terminal also shows: A, the"));
    EXPECT_EQ(text.find(" A ") < text.find(" CHANGE"), columns == 60) << text;
  }
  SizedTerminal wide(120);
  EXPECT_THAT(wide.output_of({"diff", "quick", "slow"}, options),
              AllOf(HasSubstr("CHANGE (INTERVAL)"), Not(HasSubstr("A wider terminal"))));
}

TEST_F(DiffRuns, AModelThatFindsNothingAnyMoreIsNotAsBefore) {
  for (const auto& [name, mean] : {std::pair{"finds", 3}, std::pair{"blind", 0}}) {
    fs::remove_all(bench_->path() / name);
    fs::copy(bench_->path() / "quick", bench_->path() / name, fs::copy_options::recursive);
    const fs::path file = bench_->path() / name / "report.json";
    auto report = parse_json(read_text(file));
    ASSERT_TRUE(report.has_value());
    (*report)["run_name"] = name;
    (*report)["models"][0]["detections_per_frame"] = {
        {"n", 20}, {"mean", mean}, {"min", mean}, {"max", mean}};
    write_text(file, report->dump());
  }
  const auto document = parse_json(run({"finds", "blind", "--json"}).out);
  ASSERT_TRUE(document.has_value());
  EXPECT_THAT(get_text(*document, "verdict"),
              StartsWith("Memory and time did not change, but what is found did. m finds 0 per frame where "
                         "it found 3. One run a side "));
  EXPECT_EQ(get_text(*document, "outcome"), "unknown");
  EXPECT_THAT(run({"finds", "finds"}).out, StartsWith("A and B are the same run"));
}

TEST_F(DiffRuns, ABreachIsNamedBesideARuleThatCannotBeJudged) {
  const CommandResult both = run({"quick", "large", "--fail-on", "gpu_run_peak>+5%,run_peak>+1%"});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.err,
              AllOf(HasSubstr("run_peak of m went from"), HasSubstr("gpu_run_peak was not measured")));
  const CommandResult neither = run({"quick", "large", "--fail-on", "gpu_run_peak>+5%,run_peak>+1000%"});
  EXPECT_EQ(neither.exit_code, 2);
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

TEST_F(DiffRuns, EveryKeyOfJsonIsDocumented) {
  for (const Words& words : {Words{"quick", "slow", "--json"}, Words{"quick", "large", "--json"},
                             Words{"quick", "slow", "--json", "--fail-on", "gpu_run_peak>+5%"}}) {
    const auto document = parse_json(run(words).out);
    ASSERT_TRUE(document.has_value());
    EXPECT_THAT(undocumented_keys(*document, "diff.md"), testing::IsEmpty());
  }
  const auto judged = parse_json(run({"quick", "slow", "--json", "--fail-on", "gpu_run_peak>+5%"}).out);
  EXPECT_THAT(get_text(*judged, "not_judged"), HasSubstr("gpu_run_peak"));
}

TEST_F(DiffRuns, SeveralRunsASide) {
  const CommandResult folder = run({"several", "slow"});
  EXPECT_EQ(folder.exit_code, 0) << folder.err;
  EXPECT_THAT(folder.out, AllOf(StartsWith("B is slower"), HasSubstr("several/1 and 2 more")));
  const CommandResult listed = run({"several/1", "several/2", "several/3", ":", "others"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("spread of 3 and 3 runs"));
  EXPECT_THAT(run({"several/1", "several/2", "several/3"}).err,
              HasSubstr("takes two things to compare: 3 given"));
  EXPECT_THAT(run({":", "several/1"}).err, HasSubstr("takes two sides"));
}

// Its noise would count as none.
TEST_F(DiffRuns, ARunThatIsNamedTwiceIsOne) {
  const auto before = [&](Words words) {
    words.emplace_back("--json");
    return (*parse_json(run(std::move(words)).out))["before"].size();
  };
  EXPECT_EQ(before({"several/1", "several/1", "several/2/../1", ":", "slow"}), 1U);
  fs::create_directory_symlink("3", bench_->path() / "several/latest");
  EXPECT_EQ(before({"several", "slow"}), 3U);
  fs::remove(bench_->path() / "several/latest");
}

// As a job fetches them twice, or a backup inside the folder of runs.
TEST_F(DiffRuns, ACopyOfARunCountsOnce) {
  fs::create_directories(bench_->path() / "copies");
  for (const char* copy : {"copies/1", "copies/2"})
    fs::copy(bench_->path() / "quick", bench_->path() / copy, fs::copy_options::recursive);
  const CommandResult result = run({"copies", "slow"});
  EXPECT_THAT(result.out, HasSubstr("left out of A: copies/2 is a copy of copies/1"));
  EXPECT_EQ((*parse_json(run({"copies", "slow", "--json"}).out))["before"], Json::array({"copies/1"}));
  EXPECT_THAT(run({"quick", "copies/2"}).out, StartsWith("A and B are the same run"));
  EXPECT_THAT(run({"quick", "several"}).out, Not(HasSubstr("same run")));
  fs::remove_all(bench_->path() / "copies");
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
  std::string cut = read_text(bench_->path() / "quick/frames/m.csv");
  cut.resize(cut.find('\n', cut.size() / 2) + 1);
  write_text(bench_->path() / "damaged/frames/m.csv", cut);
  EXPECT_THAT(run({"quick", "damaged"}).err,
              AllOf(HasSubstr("frames, and report.json tells of 20"), HasSubstr("it was cut off")));
  fs::remove_all(bench_->path() / "damaged/frames");
  EXPECT_EQ(run({"quick", "damaged"}).exit_code, 0);  // of an earlier version of Headroom
  write_text(bench_->path() / "damaged/report.json", "{\"schema_version\": 1, \"run_name\": 7}");
  EXPECT_THAT(run({"quick", "damaged"}).err, HasSubstr("run_name"));
}

// A copy of the quick run, its report changed.
class ChangedRuns : public DiffRuns {
 protected:
  void change(const char* name, const std::function<void(Json& report)>& with) {
    const fs::path run = bench_->path() / name;
    fs::remove_all(run);
    fs::copy(bench_->path() / "quick", run, fs::copy_options::recursive);
    auto report = parse_json(read_text(run / "report.json"));
    ASSERT_TRUE(report.has_value());
    with(*report);
    write_text(run / "report.json", report->dump());
  }
  static void fail(Json& report) {
    report["models"][0]["status"] = "oom";
    report["models"][0]["error"] = "the kernel killed it";
  }
};

TEST_F(ChangedRuns, WhatFailedIsNotAsItWas) {
  change("failed", fail);
  const CommandResult recovered = run({"failed", "quick"});
  EXPECT_THAT(recovered.out,
              StartsWith("B is better: m came through in B and not in A (oom: the kernel killed it)."));
  EXPECT_THAT(recovered.out, Not(HasSubstr("Nothing that the runs record explains it")));
  const CommandResult fell = run({"quick", "failed", "--fail-on", "run_peak>+5%"});
  EXPECT_EQ(fell.exit_code, 1);
  EXPECT_THAT(fell.out, AllOf(StartsWith("B is worse: m came through in A and not in B"),
                              Not(HasSubstr("Nothing that the runs record explains it"))));
  change("failed_again", [](Json& report) {
    fail(report);
    report["run_name"] = "failed_again";
  });
  const CommandResult both = run({"failed", "failed_again", "--fail-on", "run_peak>+5%"});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.out, AllOf(StartsWith("m failed in A and in B (oom: the kernel killed it)."),
                              Not(HasSubstr("o change was found"))));
  const CommandResult itself = run({"failed", "failed", "--fail-on", "run_peak>+5%"});
  EXPECT_EQ(itself.exit_code, 1);
  EXPECT_THAT(itself.out, AllOf(StartsWith("A and B are the same run"), HasSubstr("m failed in A and in B")));
  const auto document = parse_json(run({"failed", "failed_again", "--json"}).out);
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(get_text(*document, "outcome"), "unknown");
  EXPECT_EQ(get_integer((*document)["models"][0], "failed_after"), 1);
}

TEST_F(ChangedRuns, ANewModelThatFailedIsTold) {
  change("more", [](Json& report) {
    Json added = report["models"][0];
    added["name"] = "added";
    added["status"] = "crashed";
    report["models"].push_back(added);
  });
  const CommandResult result = run({"quick", "more", "--fail-on", "run_peak>+50%"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, StartsWith("B is worse: added is new in B and failed there (crashed"));
  EXPECT_THAT(result.err, HasSubstr("added is new in B and failed there"));
}

TEST_F(ChangedRuns, TwoModelsOfOneNameAreRefused) {
  change("twins", [](Json& report) { report["models"].push_back(Json(report["models"][0])); });
  const CommandResult result = run({"quick", "twins"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("twins/report.json"), HasSubstr("two of its models are named 'm'")));
}

TEST_F(ChangedRuns, GrowthFromNothingHasNoPercentage) {
  change("nothing", [](Json& report) { report["models"][0]["memory"]["run_peak_bytes"] = 0; });
  const CommandResult result = run({"nothing", "quick", "--fail-on", "run_peak>+5%"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("run_peak +"), HasSubstr("(0 B to"), Not(HasSubstr("+0.0 % (0 B"))));
  EXPECT_THAT(result.err, HasSubstr("run_peak of m went from 0 B to"));
}

TEST_F(ChangedRuns, PipelinesAndPoolsAreComparedToo) {
  const auto pipeline = [](std::int64_t peak) {
    return [peak](Json& report) {
      report["pipeline"] = {{"status", "ok"},
                            {"frames", 20},
                            {"runtime_bytes", 20 << 20},
                            {"peak_bytes", peak},
                            {"memory", {{"run_peak_bytes", peak}, {"violations", 0}}},
                            {"models", Json::array()}};
    };
  };
  change("one", pipeline(100 << 20));
  change("two", pipeline(130 << 20));
  const CommandResult result = run({"one", "two", "--fail-on", "(pipeline):run_peak>+5%"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, StartsWith("B is larger: (pipeline): run_peak +30.0 %"));
}

// What B was not asked for it does not have: that is the cause, before all else that changed.
TEST_F(ChangedRuns, APhaseThatWasNotAskedForIsTheCause) {
  change("piped", [](Json& report) {
    report["options"]["pipeline"] = true;
    report["options"]["warmup"] = 5;
    report["host"]["kernel"] = "6.0";
    report["pipeline"] = {{"status", "ok"},
                          {"frames", 20},
                          {"runtime_bytes", 20 << 20},
                          {"peak_bytes", 100 << 20},
                          {"memory", Json::object()},
                          {"models", Json::array()}};
  });
  const Json diff = *parse_json(run({"piped", "quick", "--json"}).out);
  // And it is no worse for it.
  EXPECT_THAT(
      get_text(diff, "verdict"),
      StartsWith("B was made without --pipeline, so nothing of it is compared. Of what both measured"));
  EXPECT_EQ(get_text(diff, "outcome"), "same");
  EXPECT_THAT(get_text(diff, "cause"),
              HasSubstr("--pipeline (on to off); --warmup (5 to 10); kernel (6.0 to"));
}

TEST_F(ChangedRuns, FiguresThatNothingCanHaveAreRefused) {
  for (const std::int64_t bytes : {std::int64_t{-4096}, std::numeric_limits<std::int64_t>::max()}) {
    change("absurd", [&](Json& report) { report["models"][0]["memory"]["run_peak_bytes"] = bytes; });
    const CommandResult result = run({"quick", "absurd"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("absurd/report.json is not usable"),
                                  HasSubstr(fmt::format("run_peak_bytes of the model 'm' is {}", bytes))));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

// Of single runs a row makes no verdict; that nothing changed is not said beside one that differs.
TEST_F(ChangedRuns, WhatDiffersBesideTheVerdictIsTold) {
  change("slow_to_load", [](Json& report) { report["models"][0]["model_load_time_ns"] = 3'600'000'000'000; });
  const Json diff = *parse_json(run({"quick", "slow_to_load", "--json"}).out);
  EXPECT_THAT(
      get_text(diff, "verdict"),
      AllOf(StartsWith("No change was found in load_peak, run_peak and latency. Other figures differ"),
            HasSubstr("by chance): load_time +"), HasSubstr("Make more runs: headroom bench --repeat")));
  EXPECT_EQ(get_text(diff, "outcome"), "unknown");
}

// Half as many frames a second in one run: a neighbour, or a change. Nobody can tell, and nobody says that
// nothing changed.
TEST_F(ChangedRuns, WhatOneRunCannotTellIsNoSameness) {
  change("half", [](Json& report) {
    Json& model = report["models"][0];
    model["fps"] = *get_number(model, "fps") * 0.75;
  });
  const Json diff = *parse_json(run({"quick", "half", "--json"}).out);
  EXPECT_THAT(
      get_text(diff, "verdict"),
      AllOf(StartsWith("No change was found, but these runs cannot rule one out. One run a side shows "),
            HasSubstr(" Make more runs: headroom bench --repeat 8 for each side"),
            HasSubstr(" What looks different, and may be chance: fps -25.0 % (")));
  EXPECT_EQ(get_text(diff, "outcome"), "unknown");
  EXPECT_EQ(get_text(diff, "cause"), "") << "what may be chance needs none";
}

// How many pages of files are mapped depends on how they came into the page cache.
TEST_F(ChangedRuns, PagesOfFilesMakeNothingWorse) {
  for (const auto& [name, mebibytes] : {std::pair{"few_pages", 15}, std::pair{"many_pages", 27}})
    change(name, [name = name, bytes = std::int64_t{mebibytes} << 20](Json& report) {
      report["run_name"] = name;
      report["models"][0]["memory"]["file_backed_peak_bytes"] = bytes;
    });
  const Json diff = *parse_json(run({"few_pages", "many_pages", "--json"}).out);
  EXPECT_EQ(get_text(diff, "outcome"), "same");
  EXPECT_THAT(get_text(diff, "verdict"),
              AllOf(StartsWith("No change was found. "), Not(HasSubstr("file_pages"))));
  ASSERT_FALSE(diff["caveats"].empty());
  EXPECT_THAT(diff["caveats"].back().get<std::string>(),
              AllOf(StartsWith("file_pages of m went from 15.0 MiB to 27.0 MiB"), HasSubstr("page cache")));
  for (const Json& metric : diff["models"][0]["metrics"])
    EXPECT_FALSE(get_text(metric, "name") == "file_pages" && metric.contains("worse")) << metric;
  const CommandResult comment = run({"few_pages", "many_pages", "--markdown"});
  EXPECT_THAT(comment.out, AllOf(StartsWith(":white_circle:"), HasSubstr("| file_pages"),
                                 Not(HasSubstr("worse")), HasSubstr("**To be known**")));
}

TEST_F(ChangedRuns, AValueOfBHoldsForANewModel) {
  change("two", [](Json& report) {
    Json other = report["models"][0];
    other["name"] = "other";
    other["memory"]["run_peak_bytes"] = std::int64_t{900} << 20;
    report["models"].push_back(other);
  });
  const CommandResult breach = run({"quick", "two", "--fail-on", "run_peak>512MiB"});
  EXPECT_EQ(breach.exit_code, 1);
  EXPECT_THAT(breach.err, HasSubstr("run_peak of other is 900.0 MiB in B"));
  EXPECT_THAT(breach.out, HasSubstr("other is new in B: "));
  EXPECT_EQ(run({"quick", "two", "--fail-on", "run_peak>1GiB"}).exit_code, 0);
  const auto document = parse_json(run({"quick", "two", "--json"}).out);
  EXPECT_THAT(undocumented_keys(*document, "diff.md"), testing::IsEmpty());
  EXPECT_THAT(run({"quick", "two", "--markdown", "--fail-on", "gpu_run_peak>+5%"}).out,
              HasSubstr("**Gate**\n\n- --fail-on 'gpu_run_peak>+5%' cannot be judged"));
}

// Sorted keys, as jq -S writes them; a report that was cut off; a pipe of its name.
TEST_F(ChangedRuns, FilesAreWhatTheyHoldAndOneBadRunIsLeftOut) {
  const fs::path root = bench_->path();
  Json report = *parse_json(read_text(root / "quick/report.json"));
  write_text(root / "sorted.json", report.dump(1));
  EXPECT_THAT(run({"sorted.json", "quick"}).out, Not(HasSubstr("is nothing that")));
  for (const char* name : {"folder/good", "folder/cut", "folder/pipe"}) fs::create_directories(root / name);
  fs::copy(root / "slow/report.json", root / "folder/good/report.json");
  write_text(root / "folder/cut/report.json", report.dump().substr(0, 500));
  ASSERT_EQ(::mkfifo((root / "folder/pipe/report.json").c_str(), 0600), 0);
  const CommandResult result = run({"folder", "quick"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("folder/cut"), HasSubstr("folder/pipe/report.json")));
  EXPECT_EQ(run({"folder/cut", "quick"}).exit_code, 2);
  EXPECT_THAT(run({"folder/pipe", "quick"}).err, HasSubstr("it is no file"));
  fs::remove_all(root / "folder/good");
  EXPECT_EQ(run({"folder", "quick"}).exit_code, 2) << "none is left";
  change("backwards", [](Json& changed) { changed["models"][0]["fps"] = -3; });
  EXPECT_THAT(run({"quick", "backwards"}).err, HasSubstr("fps of the model 'm' is -3"));
}

// A name that would steer the terminal, and one model that was renamed.
TEST_F(ChangedRuns, ARenamedModelIsToldAndExplainsNothing) {
  change("renamed", [](Json& report) { report["models"][0]["name"] = "n\033[31m"; });
  const CommandResult result = run({"quick", "renamed", "--fail-on", "n\033[31m:run_peak>+5%"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("No change was found. "), HasSubstr("renamed"),
                                Not(HasSubstr("\033")), Not(HasSubstr("What did change"))));
}

TEST_F(ChangedRuns, AFailureIsExplainedByTheLimit) {
  change("free", [](Json& report) {
    report["models"][0]["confidence"] = 0.25;
    report["models"][0]["iou"] = 0.45;
  });
  change("limited", [](Json& report) {
    fail(report);
    report["models"][0]["settings"]["threads"] = 3;
    report["limit"] = {{"bytes", 8 << 20}, {"type", "hard"}, {"mechanism", "cgroup_v1"}};
  });
  const CommandResult result = run({"free", "limited"});
  EXPECT_THAT(result.out, HasSubstr("the likeliest cause first: memory limit (none to 8.0 MiB"));
  EXPECT_THAT(result.out, Not(HasSubstr("confidence")));
}

// By links that go round in a circle, which nobody can open, not even root.
TEST_F(ChangedRuns, WhatCannotBeOpenedSaysWhyAndWhatIsLeftOutIsNamed) {
  const fs::path circle = bench_->path() / "circle";
  fs::create_directories(circle);
  fs::create_symlink("report.json", circle / "report.json");
  const CommandResult unreadable = run({"quick", "circle"});
  EXPECT_EQ(unreadable.exit_code, 2);
  EXPECT_THAT(unreadable.err,
              AllOf(HasSubstr("cannot open circle/report.json"), Not(HasSubstr("has no report.json"))));
  const fs::path stopped = bench_->path() / "several/stopped";
  fs::create_directories(stopped);
  fs::rename(circle, bench_->path() / "several/unreadable");
  const CommandResult result = run({"several", "slow", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("left out of A: cannot open several/unreadable/report.json"),
                                HasSubstr("several/stopped has no report.json")));
  fs::remove_all(stopped);
  fs::remove_all(bench_->path() / "several/unreadable");
}

TEST_F(ChangedRuns, AReportThatIsNotUsableIsNamed) {
  change("wrong", [](Json& report) { report["run_name"] = 7; });
  EXPECT_THAT(run({"quick", "wrong"}).err, HasSubstr("wrong/report.json is not usable"));
}

TEST_F(ChangedRuns, ALogAsATableIsKnown) {
  write_text(bench_->path() / "log.csv", "time_seconds,unix_time_seconds,cpu_percent\n0.0,1.0,3\n");
  EXPECT_THAT(run({"log.csv", "log.csv"}).err,
              AllOf(HasSubstr("a log of headroom watch in the form of a table"), HasSubstr("FILE.jsonl")));
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
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "a.jsonl"}, options).out,
              StartsWith("A and B are the same log, so there is nothing to compare"));
  const CommandResult misspelt =
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-on", "ram_free>1GiB"}, options);
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("no figure 'ram_free' in common; did you mean ram_free_bytes?"));
  EXPECT_THAT(
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes>5"}, options).err,
      HasSubstr("write FIGURE>+5%, or with the figure's unit FIGURE>+20MiB, as in 'ram_free_bytes>+5%'"));
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-above", "5%"}, options).err,
              HasSubstr("take --fail-on 'ram_used_bytes>+5%'"));
  // The free memory is halved, the processor is as it was.
  const CommandResult gate = run_headroom(
      {"diff", "a.jsonl", "b.jsonl", "--fail-on", "ram_free_bytes<-5%,cpu_percent>+1%"}, options);
  EXPECT_EQ(gate.exit_code, 1);
  EXPECT_THAT(gate.err, AllOf(HasSubstr("ram_free_bytes went from"), HasSubstr("'ram_free_bytes<-5%'"),
                              Not(HasSubstr("cpu_percent"))));
  EXPECT_THAT(gate.out, StartsWith("1 of "));
  EXPECT_EQ(
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--fail-on", "max:cpu_percent>24"}, options).exit_code, 0);
  const CommandResult most =
      run_headroom({"diff", "a.jsonl", "b.jsonl", "--json", "--fail-on", "max:cpu_percent>23"}, options);
  EXPECT_EQ(most.exit_code, 1);
  const auto breached = parse_json(most.out);
  ASSERT_TRUE(breached.has_value()) << most.out;
  EXPECT_THAT(undocumented_keys(*breached, "diff.md"), testing::IsEmpty());
  EXPECT_EQ((*breached)["breaches"].size(), 1);
  for (const Words& words :
       {Words{"diff", "a.jsonl", "garbage.jsonl"}, Words{"diff", "a.jsonl", "a.jsonl", "--by", "layer"},
        Words{"diff", "a.jsonl", "b.jsonl", ":", "a.jsonl"},
        Words{"diff", "a.jsonl", "b.jsonl", "--fail-on", "p50>+5%"}}) {
    const CommandResult wrong = run_headroom(words, options);
    EXPECT_EQ(wrong.exit_code, 2) << wrong.out;
    EXPECT_EQ(std::count(wrong.err.begin(), wrong.err.end(), '\n'), 1) << wrong.err;
  }
}

// What is missing of a log is told before anything that stands on the rest, and no gate passes on it.
TEST(DiffLogs, PartsOfLogsAreToldAndPassNoGate) {
  TemporaryFolder folder;
  std::string whole;
  for (int i = 0; i < 60; ++i)
    whole += fmt::format("{{\"time_ns\": {}, \"ram_free_bytes\": {}, \"cpu_percent\": {}}}\n",
                         i * 1'000'000'000LL, 4'000'000'000LL + i % 7 * 1000, 20 + i % 5);
  const std::size_t first = whole.find('\n') + 1;
  write_text(folder.path() / "a.jsonl", whole);
  write_text(folder.path() / "one.jsonl", whole.substr(0, first));
  write_text(folder.path() / "cut.jsonl", whole.substr(0, whole.size() - 30));
  write_text(folder.path() / "garbage.jsonl", whole.substr(0, 20 * first) + "\x01\x02 what\n" + whole);
  CommandOptions options;
  options.folder = folder.path();
  const auto diff = [&](Words words) {
    words.insert(words.begin(), "diff");
    return run_headroom(words, options);
  };
  ASSERT_EQ(diff({"a.jsonl", "a.jsonl", "--fail-on", "cpu_percent>+5%"}).exit_code, 0);
  for (const auto& [log, words] :
       {std::pair{"one.jsonl", "B (one.jsonl) has 1 sample only"},
        std::pair{"cut.jsonl", "B (cut.jsonl) is damaged: 1 of its 60 lines is no sample"},
        std::pair{"garbage.jsonl", "B (garbage.jsonl) is damaged: "}}) {
    const CommandResult screen = diff({"a.jsonl", log});
    EXPECT_EQ(screen.exit_code, 0) << screen.err;
    EXPECT_THAT(screen.out, StartsWith(words));
    const CommandResult gate = diff({"a.jsonl", log, "--fail-on", "cpu_percent>+5%,max:cpu_percent>90"});
    EXPECT_EQ(gate.exit_code, 2) << log;
    EXPECT_THAT(gate.err, AllOf(HasSubstr("the gate cannot be judged"), HasSubstr(log)));
  }
  EXPECT_THAT(diff({"a.jsonl", "one.jsonl", "--fail-on", "cpu_percent>+5%", "--markdown"}).out,
              HasSubstr("**Gate**\n\n- B"));
  EXPECT_THAT(diff({"one.jsonl", "one.jsonl"}).out, Not(HasSubstr("B is as A:")));
  EXPECT_EQ(diff({"a.jsonl", "cut.jsonl", "--fail-on", "cpu_percent>10"}).exit_code, 1);
}

// A plain leak, and a step: the first differs by its trend, of the second nothing can be told, and no gate on
// it passes.
TEST(DiffLogs, ATrendIsComparedAndWhatMovesSlowlyIsTold) {
  TemporaryFolder folder;
  const auto log = [&](const char* name, double rise, double step) {
    std::string text;
    for (int i = 0; i < 600; ++i)
      text += fmt::format(
          "{{\"time_ns\": {}, \"ram_used_bytes\": {}}}\n", i * 1'000'000'000LL,
          std::llround((1 << 30) + i * 7919 % 101 * 4096 + rise * i / 600 + (i < 300 ? 0 : step)));
    write_text(folder.path() / name, text);
  };
  log("flat.jsonl", 0, 0);
  log("leak.jsonl", 1 << 30, 0);
  log("step.jsonl", 0, 900 << 20);
  log("flat_again.jsonl", 1 << 12, 0);
  CommandOptions options;
  options.folder = folder.path();
  const auto diff = [&](Words words) {
    words.insert(words.begin(), {"diff", "flat.jsonl"});
    return run_headroom(words, options);
  };
  const CommandResult leak = diff({"leak.jsonl", "--fail-on", "ram_used_bytes>+5%"});
  EXPECT_EQ(leak.exit_code, 1) << leak.err;
  EXPECT_THAT(leak.out, AllOf(StartsWith("1 of 1 figures differ"), HasSubstr("(a trend: it")));
  const CommandResult step = diff({"step.jsonl", "--fail-on", "ram_used_bytes>+5%"});
  EXPECT_EQ(step.exit_code, 2);
  EXPECT_THAT(step.out, StartsWith("Cannot be told: RAM used moves too slowly, or in a step"));
  EXPECT_THAT(step.err, HasSubstr("moves too slowly"));
  EXPECT_EQ(diff({"step.jsonl", "--fail-on", "max:ram_used_bytes>+5%"}).exit_code, 1);
  EXPECT_EQ(diff({"step.jsonl", "--fail-on", "ram_used_bytes>8GiB"}).exit_code, 0);
  for (const auto& [name, outcome] :
       {std::pair{"leak.jsonl", "differs"}, {"step.jsonl", "unknown"}, {"flat_again.jsonl", "same"}}) {
    const auto document = parse_json(diff({name, "--json"}).out);
    ASSERT_TRUE(document.has_value());
    EXPECT_EQ(get_text(*document, "outcome"), outcome);
    EXPECT_THAT(undocumented_keys(*document, "diff.md"), testing::IsEmpty());
  }
}

// A log of what rises, and its copy: neither has it a trend of its own, nor can a change be judged.
TEST(DiffLogs, ALogAndItsCopyAreTheSame) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += fmt::format("{{\"time_ns\": {}, \"ram_used_bytes\": {}}}\n", i * 1'000'000'000LL,
                        (1LL << 30) + i * (1LL << 20));
  for (const char* name : {"a.jsonl", "copy.jsonl"}) write_text(folder.path() / name, text);
  CommandOptions options;
  options.folder = folder.path();
  const CommandResult same = run_headroom(
      {"diff", "a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>+5%,ram_used_bytes>8GiB"}, options);
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, AllOf(StartsWith("A and B are the same log"), Not(HasSubstr("annot be told"))));
  EXPECT_THAT(same.err, HasSubstr("no change is judged: ram_used_bytes>+5%"));
  EXPECT_EQ(
      run_headroom({"diff", "a.jsonl", "copy.jsonl", "--fail-on", "ram_used_bytes>1GiB"}, options).exit_code,
      1);
  const auto document = parse_json(run_headroom({"diff", "a.jsonl", "copy.jsonl", "--json"}, options).out);
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(get_text(*document, "outcome"), "same");
  EXPECT_FALSE((*document)["figures"][0].contains("cannot_be_told"));
}

// gzip itself packs the log; a third of it is cut off.
TEST(DiffLogs, ACutPackedLogIsTold) {
  TemporaryFolder folder;
  std::string whole;
  for (int i = 0; i < 2000; ++i)
    whole += fmt::format("{{\"time_ns\": {}, \"cpu_percent\": {}}}\n", i * 1'000'000'000LL, i * 7919 % 101);
  write_text(folder.path() / "a.jsonl", whole);
  SpawnOptions gzip;
  gzip.command = {"gzip", "--keep", (folder.path() / "a.jsonl").string()};
  auto packed = Subprocess::spawn(gzip);
  if (!packed || !packed->wait().success()) GTEST_SKIP() << "gzip is not installed";
  const std::string bytes = read_text(folder.path() / "a.jsonl.gz");
  write_text(folder.path() / "cut.jsonl.gz", bytes.substr(0, bytes.size() * 2 / 3));
  CommandOptions options;
  options.folder = folder.path();
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "a.jsonl.gz"}, options).out,
              StartsWith("A and B are the same log"));
  const std::string cut = run_headroom({"diff", "a.jsonl", "cut.jsonl.gz"}, options).out;
  EXPECT_THAT(cut, StartsWith("B (cut.jsonl.gz) is cut off: its end is missing behind "));
  EXPECT_THAT(cut, Not(HasSubstr("damaged"))) << "told once";
  EXPECT_EQ(
      run_headroom({"diff", "a.jsonl", "cut.jsonl.gz", "--fail-on", "cpu_percent>+50%"}, options).exit_code,
      2);
}

}  // namespace
}  // namespace headroom::test
