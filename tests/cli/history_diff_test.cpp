// Which runs the history's diff and gate select: by commit, label, machine, models and time.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/history_fixture.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST_P(History, ComparesRunsWithTheLastOnes) {
  for (int i = 1; i <= 4; ++i) run({"add", copy("quick", std::to_string(i), i), "--commit", "aaaa1111"});
  Words slow, again;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(copy("slow", fmt::format("slow{}", i), 20 + i));
    again.push_back(copy("quick", fmt::format("again{}", i), 10 + i));
  }
  const auto gate = [&](const Words& runs) {
    return run(joined({{"gate"}, runs, {"--fail-on", "latency>+10%"}}));
  };
  EXPECT_THAT(gate(slow), Ends(1, HasSubstr("\nA  4 runs of aaaa1111\n"), HasSubstr("'latency>+10%'")));
  EXPECT_EQ(gate(again).exit_code, 0);
  EXPECT_THAT(gate({slow.front()}),
              IsRefused(AllOf(HasSubstr("with 4 and 1 runs"), HasSubstr("headroom bench --repeat 8"))));
  // Without runs as arguments, it compares those of the newest commit.
  run({"add", slow[0], slow[1], slow[2], "--commit", "bbbb2222"});
  EXPECT_EQ(gate({}).exit_code, 1);
  EXPECT_EQ(json({"diff", "--json", "--last", "2"})["before"].size(), 2);
  EXPECT_EQ(get_text(json({"diff", "--json"}), "outcome"), "worse");
  EXPECT_EQ(json({"diff", slow.front(), "--commit", "aaaa", "--json"})["before"].size(), 4);
}

// Changes between the commits of A may hide the effect of B.
TEST_P(History, WarnsAboutSeveralCommitsPerSide) {
  for (int i = 1; i <= 4; ++i) run({"add", copy("quick", std::to_string(i), i), "--commit", "1111111"});
  const std::string now = copy("quick", "now", 60);
  EXPECT_THAT(run({"diff", now}).out, testing::Not(HasSubstr("several commits")));
  // One commit with two forms of its SHA.
  run({"add", copy("quick", "5", 5), copy("quick", "6", 6), "--commit", "3333333"});
  run({"add", copy("quick", "7", 7), "--commit", "3333333abcdef"});
  run({"add", now, copy("quick", "now2", 61), "--commit", "4444444"});
  for (const Words& view : {Words{"diff"}, Words{"diff", "--markdown"}}) {
    const CommandResult diff = run(view);
    EXPECT_THAT(diff.out, HasSubstr("the last 7 runs before: 3 of 3333333abc, 4 of 1111111")) << diff.err;
    EXPECT_THAT(diff.out, HasSubstr("2 runs of 4444444\n"));
  }
  EXPECT_THAT(json({"diff", "--json"})["caveats"].dump(),
              AllOf(HasSubstr("the runs of A are from several commits"),
                    HasSubstr("use --commit 3333333abcdef to compare")));
  const std::string one = run({"diff", "--commit", "1111111"}).out;
  EXPECT_THAT(one, AllOf(HasSubstr("A  4 runs of 1111111\n"), testing::Not(HasSubstr("several commits"))));
  for (int i = 8; i <= 10; ++i)
    run({"add", copy("quick", std::to_string(i), i), "--commit", fmt::format("c{}", i)});
  run({"add", copy("quick", "11", 11)});
  EXPECT_THAT(run({"diff", "--last", "1"}).out, HasSubstr("A  run 13\n"));
  EXPECT_THAT(run({"diff"}).out,
              HasSubstr("A  the last 10 runs before: 1 without a commit, 1 of c10, 1 of c9 and 7 more\n"));
}

// A history of two boards, two labels and two models.
TEST_P(History, ComparesRunsOfOneMachineOneLabelAndTheSameModels) {
  const auto board = [](const char* name) {
    return [name](Json& report) { report["host"]["board"] = name; };
  };
  run({"add", changed("quick", "1", 1, board("orin")), "--commit", "aaaa"});
  run({"add", changed("slow", "2", 2, board("xavier")), "--commit", "aaaa"});
  run({"add",
       changed("slow", "3", 3,
               [](Json& report) {
                 report["host"]["board"] = "orin";
                 report["models"][0]["name"] = "other";
               }),
       "--commit", "aaaa"});
  const std::string now = changed("quick", "now", 9, board("orin"));
  const Json diff = json({"diff", now, "--json"});
  ASSERT_EQ(diff["before"].size(), 1);
  EXPECT_EQ(diff["before"][0], "run 1 (aaaa)");
  EXPECT_TRUE(diff["only_before"].empty());
  expect_before({now, "--host", "xavier"}, {"run 2 (aaaa)"});
  EXPECT_THAT(run({"diff", changed("quick", "5", 5, board("nano"))}).err,
              HasSubstr("no other run of these models on nano"));
  // A plot has one line per machine.
  EXPECT_EQ(json({"show", "p50", "--model", "m", "--json"})["models"].size(), 2);
  EXPECT_EQ(json({"show", "p50", "--model", "m", "--host", "orin", "--json"})["models"].size(), 1);
  EXPECT_THAT(run({"show", "p50", "--host", "nope"}).err,
              HasSubstr("no run of the history on nope has p50;"));
  EXPECT_THAT(run({"show", "p50", "--model", "m", "--label", "x"}).err,
              HasSubstr("no run of the history with the label 'x' has p50 of m;"));

  run({"add", changed("slow", "6", 6, board("orin")), "--commit", "bbbb", "--label", "branch"});
  EXPECT_THAT(run({"diff", now}),
              IsRefused(AllOf(HasSubstr("ambiguous"), HasSubstr("none, branch"), HasSubstr("--label"))));
  expect_before({now, "--label", "none"}, {"run 1 (aaaa)"});
  expect_before({now, "--label", "branch"}, {"run 4 (bbbb)"});
  EXPECT_THAT(run({"diff", now, "--host", "xavier", "--label", "none", "--commit", "bbbb"}).err,
              HasSubstr("no other run of these models on xavier without a label of commit bbbb"));
}

// Only the compared runs must have the same label.
TEST_P(History, IgnoresLabelsOfRunsThatAreNotCompared) {
  run({"add", copy("quick", "1", 1), copy("quick", "2", 2), "--label", "main"});
  const std::string third = copy("quick", "3", 3);
  run({"add", copy("quick", "9", 9), "--label", "later-branch"});
  expect_before({third}, {"run 1", "run 2"});
  // The labels of runs before the last ones do not matter either.
  const std::string tenth = copy("quick", "10", 10);
  expect_before({tenth, "--last", "1"}, {"run 3"});
  EXPECT_THAT(run({"diff", tenth}),
              IsRefused(HasSubstr("have the labels later-branch, main; choose a label: --label main")));
}

// More pairs of run and model than PostgreSQL allows variables (65,535).
TEST_P(History, LoadsRunsOfManyModelsInBatches) {
  constexpr int kModels = 1000, kRuns = 66;
  Words models;
  for (int i = 0; i < kModels; ++i) models.push_back(fmt::format("m{:03}", i));
  const auto named = [](const std::string& name) {
    return [name](Json& report) { report["models"][0]["name"] = name; };
  };
  run({"add", changed("quick", "first", 1, named(models.front())),
       changed("quick", "last", 2, named(models.back())), changed("quick", "other", 3, named("other"))});
  const fs::path many = folder_.path() / "many";
  const std::string first = of_models(models, "many/0", 0);
  for (int i = 1; i < kRuns; ++i) {
    std::string report = read_text(first + "/report.json");
    const std::string moment = "T10:00:00.000";
    report.replace(report.find(moment), moment.size(), fmt::format("T10:{:02}:{:02}.000", i / 60, i % 60));
    const fs::path folder = many / std::to_string(i);
    fs::create_directories(folder);
    write_text(folder / "report.json", report);
  }
  const Json diff = json({"diff", many, "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 1", "run 2"}));
  EXPECT_EQ(diff["after"].size(), kRuns);
}

TEST_P(History, ComparesAnOldRunWithEarlierRuns) {
  run({"add", copy("quick", "1", 1), "--commit", "aaaa"});
  const std::string old = copy("quick", "2", 2);
  run({"add", old, "--commit", "bbbb"});
  run({"add", copy("slow", "3", 3), "--commit", "cccc"});
  expect_before({old}, {"run 1 (aaaa)"});
  expect_before({old, "--commit", "cccc"}, {"run 3 (cccc)"});
  // With several runs, the latest one counts.
  expect_before({old, copy("slow", "4", 4)}, {"run 1 (aaaa)", "run 3 (cccc)"});
  EXPECT_THAT(run({"diff", copy("quick", "0", 0)}), IsRefused(HasSubstr("made before 2026-11-01T10:00:00")));
}

TEST_P(History, ComparesAllRunsOfTheNewestCommit) {
  run({"add", copy("quick", "1", 1), "--commit", "aaaa"});
  run({"add", copy("slow", "2", 2), "--commit", "bbbb"});
  run({"add", copy("quick", "3", 3), "--commit", "aaaa"});
  run({"add", copy("slow", "4", 4), "--commit", "bbbb"});
  expect_sides({}, {"run 1 (aaaa)", "run 3 (aaaa)"}, {"run 2 (bbbb)", "run 4 (bbbb)"});
  EXPECT_EQ(json({"diff", "--commit", "aa", "--json"})["before"].size(), 2);
  EXPECT_THAT(run({"diff", "--commit", "bbbb"}).err, HasSubstr("it is the newest commit"));
}

TEST_P(History, HostSelectsItsNewestRuns) {
  const auto of_board = [](const char* name) {
    return [name](Json& report) { report["host"]["board"] = name; };
  };
  run({"add", changed("quick", "1", 1, of_board("orin")), "--commit", "aaaa"});
  run({"add", changed("quick", "2", 2, of_board("orin")), "--commit", "bbbb"});
  run({"add", changed("slow", "3", 3, of_board("xavier")), "--commit", "cccc"});
  expect_sides({"--host", "orin"}, {"run 1 (aaaa)"}, {"run 2 (bbbb)"});
  EXPECT_THAT(run({"diff", "--host", "nano"}).err, HasSubstr("the history has no run from nano"));
}

// Jobs do not end in the order in which they started. The start time of a run counts.
TEST_P(History, SortsLateRunsByTheirStart) {
  run({"add", copy("quick", "2", 2), "--commit", "bbbb"});
  run({"add", copy("slow", "3", 3), "--commit", "cccc"});
  run({"add", copy("quick", "1", 1), "--commit", "aaaa"});
  expect_sides({}, {"run 3 (aaaa)", "run 1 (bbbb)"}, {"run 2 (cccc)"});
  const std::string plot = run({"show", "run_peak"}).out;
  EXPECT_LT(plot.find("aaaa"), plot.find("bbbb"));
  EXPECT_LT(plot.find("bbbb"), plot.find("cccc"));
}

TEST_P(History, ComparesTimesAcrossTimeZones) {
  const auto at = [](const char* time) { return [time](Json& report) { report["started_at"] = time; }; };
  run({"add", changed("quick", "1", 1, at("2026-11-23T10:00:00+00:00")), "--commit", "aaaa"});
  // 11:30 UTC, so this is the latest run.
  run({"add", changed("quick", "2", 2, at("2026-11-23T06:30:00.500-05:00")), "--commit", "bbbb"});
  run({"add", changed("quick", "3", 3, at("2026-11-23T16:00:00+0545")), "--commit", "cccc"});
  expect_sides({}, {"run 1 (aaaa)", "run 3 (cccc)"}, {"run 2 (bbbb)"});
  EXPECT_THAT(run({"list"}).out, HasSubstr("2026-11-23T06:30:00-05:00"));
}

// A commit name does not match longer names, but a short SHA matches the full one.
TEST_P(History, DistinguishesCommitsByFullName) {
  run({"add", copy("quick", "1", 1), "--commit", "base"});
  run({"add", copy("slow", "2", 2), "--commit", "v1.2-rc1"});
  run({"add", copy("quick", "3", 3), "--commit", "v1.2"});
  expect_sides({}, {"run 1 (base)", "run 2 (v1.2-rc1)"}, {"run 3 (v1.2)"});
  const std::string now = copy("quick", "4", 4);
  expect_before({now, "--commit", "v1.2"}, {"run 3 (v1.2)"});
  EXPECT_THAT(run({"diff", now, "--commit", "v1"}),
              IsRefused(HasSubstr("the commit v1 is ambiguous: the history has v1.2, v1.2-rc1")));
  expect_before({now, "--commit", "ba"}, {"run 1 (base)"});
  run({"add", copy("quick", "5", 5), "--commit", "1a2b3c4d"});
  run({"add", copy("quick", "6", 6), "--commit", "1a2b3c4d5e6f"});
  const Json newest = json({"diff", "--json"});
  EXPECT_EQ(newest["before"].size(), 3) << "without those of the same commit with the shorter SHA";
  EXPECT_EQ(newest["after"].size(), 2) << "they are of the newest commit too";
  EXPECT_EQ(json({"diff", now, "--commit", "1a2b3c4d5e", "--json"})["before"].size(), 2);
  EXPECT_THAT(run({"diff", "--last", "1001"}).err, HasSubstr("the maximum is 1000 per side"));
}

// The suffix of `git describe --dirty`.
TEST_P(History, ACommitWithASuffixIsADifferentCommit) {
  run({"add", copy("quick", "1", 1), "--commit", "1a2b3c4"});
  run({"add", copy("quick", "2", 2), "--commit", "1a2b3c4-dirty"});
  expect_sides({}, {"run 1 (1a2b3c4)"}, {"run 2 (1a2b3c4-di)"});
  expect_before({"--commit", "1a2b3c4"}, {"run 1 (1a2b3c4)"});
}

TEST_P(History, AnAmbiguousCommitListsTheFirstMatches) {
  for (int i = 1; i <= 7; ++i)
    run({"add", copy("quick", std::to_string(i), i), "--commit", fmt::format("v1.{}", i)});
  EXPECT_THAT(run({"diff", "--commit", "v1"}).err,
              HasSubstr("the history has v1.1, v1.2, v1.3, v1.4, v1.5 and 2 more; use a longer name"));
}

}  // namespace
}  // namespace headroom::test
