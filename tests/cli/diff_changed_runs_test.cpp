// `headroom diff` of runs that failed, that lack a figure, or in which one figure changed.
#include <fmt/format.h>

#include <sys/stat.h>

#include <limits>

#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/diff_runs_fixture.h"
#include "cli/documented_keys.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A copy of the quick run with a changed report.
class ChangedRuns : public DiffRuns {
 protected:
  void change(const char* name, const std::function<void(Json& report)>& with) {
    const fs::path run = bench_->path() / name;
    fs::remove_all(run);
    fs::copy(bench_->path() / "quick", run, fs::copy_options::recursive);
    auto report = parse_json(read_text(run / "report.json"));
    ASSERT_TRUE(report.has_value());
    (*report)["run_name"] = name;  // else it would be the same run
    with(*report);
    write_text(run / "report.json", report->dump());
  }
  static void fail(Json& report) {
    report["models"][0]["status"] = "oom";
    report["models"][0]["error"] = "the kernel killed it";
  }
  static Json pipeline(std::int64_t peak) {
    return {{"status", "ok"},
            {"frames", 20},
            {"runtime_bytes", 20 << 20},
            {"peak_bytes", peak},
            {"memory", {{"run_peak_bytes", peak}, {"violations", 0}}},
            {"models", Json::array()}};
  }
};

TEST_F(ChangedRuns, AFailedModelIsWorse) {
  change("failed", fail);
  EXPECT_THAT(run({"failed", "quick"}).out,
              AllOf(StartsWith("B is better: m succeeded in B but failed in A (oom: the kernel killed it)."),
                    Not(HasSubstr("The runs record no cause"))));
  EXPECT_THAT(run({"quick", "failed", "--fail-on", "run_peak>+5%"}),
              Ends(1, AllOf(StartsWith("B is worse: m succeeded in A but failed in B"),
                            Not(HasSubstr("The runs record no cause")))));
  change("failed_again", fail);
  EXPECT_THAT(run({"failed", "failed_again", "--fail-on", "run_peak>+5%"}),
              Ends(1, AllOf(StartsWith("m failed in A and in B (oom: the kernel killed it)."),
                            Not(HasSubstr("o change was found")))));
  EXPECT_THAT(run({"failed", "failed", "--fail-on", "run_peak>+5%"}),
              Ends(1, AllOf(StartsWith("A and B are the same run"), HasSubstr("m failed in A and in B"))));
  const Json document = json_of(run({"failed", "failed_again", "--json"}));
  EXPECT_EQ(get_text(document, "outcome"), "unknown");
  EXPECT_EQ(get_integer(document["models"][0], "failed_after"), 1);
}

TEST_F(ChangedRuns, AModelWithoutDetectionsIsAChange) {
  for (const auto& [name, mean] : {std::pair{"finds", 3}, std::pair{"blind", 0}})
    change(name, [mean = mean](Json& report) {
      report["models"][0]["detections_per_frame"] = {{"n", 20}, {"mean", mean}, {"min", mean}, {"max", mean}};
    });
  const Json document = json_of(run({"finds", "blind", "--json"}));
  EXPECT_THAT(get_text(document, "verdict"),
              StartsWith("Memory did not change, but the detections did. m now finds 0 per frame; "
                         "before, it found 3. One run per side "));
  EXPECT_EQ(get_text(document, "outcome"), "unknown");
  EXPECT_THAT(run({"finds", "finds"}).out, StartsWith("A and B are the same run"));
}

TEST_F(ChangedRuns, RejectsTwoModelsOfOneName) {
  change("twins", [](Json& report) { report["models"].push_back(Json(report["models"][0])); });
  EXPECT_THAT(run({"quick", "twins"}),
              Ends(2, testing::_,
                   AllOf(HasSubstr("twins/report.json"), HasSubstr("two of its models are named 'm'"))));
}

TEST_F(ChangedRuns, ComparesPipelinesAndPools) {
  change("one", [](Json& report) { report["pipeline"] = pipeline(100 << 20); });
  change("two", [](Json& report) { report["pipeline"] = pipeline(130 << 20); });
  EXPECT_THAT(run({"one", "two", "--fail-on", "(pipeline):run_peak>+5%"}),
              Ends(1, StartsWith("B is larger: (pipeline): run_peak +30.0 %")));
}

TEST_F(ChangedRuns, NamesAMissingPhaseFlagAsTheCause) {
  change("piped", [](Json& report) {
    report["options"]["pipeline"] = true;
    report["options"]["warmup"] = 5;
    report["host"]["kernel"] = "6.0";
    report["pipeline"] = pipeline(100 << 20);
  });
  const Json diff = json_of(run({"piped", "quick", "--json"}));
  EXPECT_THAT(get_text(diff, "verdict"),
              StartsWith("B is worse: (pipeline) succeeded in A and is missing in B."));
  EXPECT_THAT(get_text(diff, "cause"),
              HasSubstr("--pipeline (on to off); --warmup (5 to 10); kernel (6.0 to"));
}

TEST_F(ChangedRuns, RejectsImpossibleFigures) {
  for (const std::int64_t bytes : {std::int64_t{-4096}, std::numeric_limits<std::int64_t>::max()}) {
    change("absurd", [&](Json& report) { report["models"][0]["memory"]["run_peak_bytes"] = bytes; });
    const CommandResult result = run({"quick", "absurd"});
    EXPECT_THAT(result,
                IsRefused(AllOf(HasSubstr("cannot use absurd/report.json"),
                                HasSubstr(fmt::format("run_peak_bytes of the model 'm' is {}", bytes)))));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

// A row that is not judged does not decide the verdict. But if it differs, the verdict must not claim that
// nothing changed.
TEST_F(ChangedRuns, ReportsOtherDifferencesAfterTheVerdict) {
  change("grown", [](Json& report) {
    report["models"][0]["memory"]["runtime_bytes"] =
        get_integer(report["models"][0]["memory"], "runtime_bytes").value_or(0) + (64 << 20);
  });
  const Json diff = json_of(run({"quick", "grown", "--json"}));
  EXPECT_THAT(
      get_text(diff, "verdict"),
      AllOf(StartsWith("No change was found in load_peak and run_peak. Other figures differ"),
            HasSubstr("by chance): runtime +"), HasSubstr("Make more runs: headroom bench --repeat")));
  EXPECT_EQ(get_text(diff, "outcome"), "unknown");
}

// One run with a lower frame rate: the cause may be a neighbouring process or a change. The verdict must not
// claim that nothing changed.
TEST_F(ChangedRuns, OneRunIsNotEnoughToFindNoChange) {
  change("half", [](Json& report) {
    Json& model = report["models"][0];
    model["fps"] = *get_number(model, "fps") * 0.75;
  });
  const Json diff = json_of(run({"quick", "half", "--json"}));
  EXPECT_THAT(get_text(diff, "verdict"),
              AllOf(StartsWith("No change of memory was found. One run per side shows "),
                    HasSubstr(" Make more runs: headroom bench --repeat 8 for each side"),
                    HasSubstr(" Differences that may be chance: fps -25.0 % (")));
  EXPECT_EQ(get_text(diff, "outcome"), "unknown");
  EXPECT_EQ(get_text(diff, "cause"), "") << "what may be chance needs none";
}

// The number of resident file pages depends on the page cache.
TEST_F(ChangedRuns, FilePagesDoNotCountAsAChange) {
  for (const auto& [name, mebibytes] : {std::pair{"few_pages", 15}, std::pair{"many_pages", 27}})
    change(name, [bytes = std::int64_t{mebibytes} << 20](Json& report) {
      report["models"][0]["memory"]["file_backed_peak_bytes"] = bytes;
    });
  const Json diff = json_of(run({"few_pages", "many_pages", "--json"}));
  EXPECT_EQ(get_text(diff, "outcome"), "same");
  EXPECT_THAT(get_text(diff, "verdict"),
              AllOf(StartsWith("No change of memory was found. "), Not(HasSubstr("file_pages"))));
  ASSERT_FALSE(diff["caveats"].empty());
  EXPECT_THAT(diff["caveats"].back().get<std::string>(),
              AllOf(StartsWith("file_pages of m went from 15.0 MiB to 27.0 MiB"), HasSubstr("page cache")));
  for (const Json& metric : diff["models"][0]["metrics"])
    EXPECT_FALSE(get_text(metric, "name") == "file_pages" && metric.contains("worse")) << metric;
  const CommandResult comment = run({"few_pages", "many_pages", "--markdown"});
  EXPECT_THAT(comment.out, AllOf(StartsWith(":white_circle:"), HasSubstr("| file_pages"),
                                 Not(HasSubstr("worse")), HasSubstr("**Notes**")));
}

TEST_F(ChangedRuns, ChecksValueRulesForANewModel) {
  change("two", [](Json& report) {
    Json other = report["models"][0];
    other["name"] = "other";
    other["memory"]["run_peak_bytes"] = std::int64_t{900} << 20;
    report["models"].push_back(other);
  });
  EXPECT_THAT(run({"quick", "two", "--fail-on", "run_peak>512MiB"}),
              Ends(1, HasSubstr("other is new in B: "), HasSubstr("run_peak of other is 900.0 MiB in B")));
  EXPECT_EQ(run({"quick", "two", "--fail-on", "run_peak>1GiB"}).exit_code, 0);
  const Json document = json_of(run({"quick", "two", "--json"}));
  EXPECT_THAT(undocumented_keys(document, "diff.md"), testing::IsEmpty());
  EXPECT_THAT(run({"quick", "two", "--markdown", "--fail-on", "gpu_run_peak>+5%"}).out,
              HasSubstr("**Gate**\n\n- cannot check --fail-on 'gpu_run_peak>+5%'"));
}

// Sorted keys, as jq -S writes them; a truncated report; a pipe named report.json.
TEST_F(ChangedRuns, DetectsFilesByContentAndSkipsABadRun) {
  const fs::path root = bench_->path();
  Json report = *parse_json(read_text(root / "quick/report.json"));
  write_text(root / "sorted.json", report.dump(1));
  EXPECT_THAT(run({"sorted.json", "quick"}).out, Not(HasSubstr("cannot compare")));
  for (const char* name : {"folder/good", "folder/cut", "folder/pipe"}) fs::create_directories(root / name);
  fs::copy(root / "slow/report.json", root / "folder/good/report.json");
  write_text(root / "folder/cut/report.json", report.dump().substr(0, 500));
  ASSERT_EQ(::mkfifo((root / "folder/pipe/report.json").c_str(), 0600), 0);
  EXPECT_THAT(run({"folder", "quick"}),
              Ends(0, AllOf(HasSubstr("folder/cut"), HasSubstr("folder/pipe/report.json"))));
  EXPECT_EQ(run({"folder/cut", "quick"}).exit_code, 2);
  EXPECT_THAT(run({"folder/pipe", "quick"}).err, HasSubstr("it is not a regular file"));
  fs::remove_all(root / "folder/good");
  EXPECT_EQ(run({"folder", "quick"}).exit_code, 2) << "none is left";
  change("backwards", [](Json& changed) { changed["models"][0]["fps"] = -3; });
  EXPECT_THAT(run({"quick", "backwards"}).err, HasSubstr("fps of the model 'm' is -3"));
}

// A renamed model, whose new name contains a terminal control sequence.
TEST_F(ChangedRuns, ReportsARenamedModelButNotAsTheCause) {
  change("renamed", [](Json& report) { report["models"][0]["name"] = "n\033[31m"; });
  EXPECT_THAT(run({"quick", "renamed", "--fail-on", "n\033[31m:run_peak>+5%"}),
              Ends(0, AllOf(StartsWith("No change of memory was found. "), HasSubstr("renamed"),
                            Not(HasSubstr("\033")), Not(HasSubstr("Changed: ")))));
}

TEST_F(ChangedRuns, NamesTheLimitAsTheCauseOfAFailure) {
  change("free", [](Json& report) {
    report["models"][0]["confidence"] = 0.25;
    report["models"][0]["iou"] = 0.45;
  });
  change("limited", [](Json& report) {
    fail(report);
    report["models"][0]["settings"]["threads"] = 3;
    report["limit"] = {{"bytes", 8 << 20}, {"type", "hard"}, {"mechanism", "cgroup_v1"}};
  });
  EXPECT_THAT(run({"free", "limited"}).out,
              AllOf(HasSubstr("the likeliest cause first: memory limit (none to 8.0 MiB"),
                    Not(HasSubstr("confidence"))));
}

// A circular link, which not even root can open.
TEST_F(ChangedRuns, ReportsUnreadableAndSkippedRuns) {
  const fs::path circle = bench_->path() / "circle";
  fs::create_directories(circle);
  fs::create_symlink("report.json", circle / "report.json");
  EXPECT_THAT(run({"quick", "circle"}),
              Ends(2, testing::_,
                   AllOf(HasSubstr("cannot open circle/report.json"), Not(HasSubstr("has no report.json")))));
  const fs::path stopped = bench_->path() / "several/stopped";
  fs::create_directories(stopped);
  fs::rename(circle, bench_->path() / "several/unreadable");
  EXPECT_THAT(run({"several", "slow", "--json"}),
              Ends(0, AllOf(HasSubstr("skipped in A: cannot open several/unreadable/report.json"),
                            HasSubstr("several/stopped has no report.json"))));
  fs::remove_all(stopped);
  fs::remove_all(bench_->path() / "several/unreadable");
}

TEST_F(ChangedRuns, DetectsACsvLog) {
  write_text(bench_->path() / "log.csv", "time_seconds,unix_time_seconds,cpu_percent\n0.0,1.0,3\n");
  EXPECT_THAT(run({"log.csv", "log.csv"}).err,
              AllOf(HasSubstr("a CSV log of headroom watch"), HasSubstr("FILE.jsonl")));
}

}  // namespace
}  // namespace headroom::test
