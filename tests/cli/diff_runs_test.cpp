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
  const CommandResult both = run({"failed", "failed", "--fail-on", "run_peak>+5%"});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.out, AllOf(StartsWith("m failed in A (oom"), Not(HasSubstr("is as A"))));
  const auto document = parse_json(run({"failed", "failed", "--json"}).out);
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
  EXPECT_THAT(run_headroom({"diff", "a.jsonl", "a.jsonl"}, options).out, StartsWith("B is as A"));
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

}  // namespace
}  // namespace headroom::test
