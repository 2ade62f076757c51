// `headroom history` with an SQLite file and a real PostgreSQL server: add, list, plot, relabel and remove
// runs. Its diff and gate are in history_diff_test.cpp.
#include <fmt/format.h>

#include <array>
#include <thread>

#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/documented_keys.h"
#include "cli/history_fixture.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(, History, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "PostgreSQL" : "Sqlite"; });

TEST_P(History, StoresARunOnce) {
  const std::string first = copy("quick", "1", 1);
  const CommandResult added = run({"add", first, "--commit", "aaaa1111", "--label", "orin's 'board'"});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  EXPECT_EQ(added.out, "1 of 1 run added\n");
  EXPECT_EQ(run({"add", first}).out, "0 of 1 run added, 1 already existed\n");
  const Json list = json({"list", "--json"});
  ASSERT_EQ(list["runs"].size(), 1);
  EXPECT_EQ(get_text(list["runs"][0], "commit"), "aaaa1111");
  EXPECT_EQ(get_text(list["runs"][0], "label"), "orin's 'board'");
  EXPECT_THAT(run({"list"}).out, AllOf(HasSubstr("COMMIT"), HasSubstr("aaaa1111")));
}

TEST_P(History, PlotsAMetricOverCommits) {
  run({"add", copy("quick", "1", 1), copy("quick", "2", 2), "--commit", "aaaa1111"});
  run({"add", copy("slow", "3", 3), "--commit", "bbbb2222"});
  EXPECT_THAT(run({"show", "p50"}),
              Ends(0, AllOf(HasSubstr("aaaa1111"), HasSubstr("bbbb2222"), HasSubstr("●"))));
  const Json plotted = json({"show", "p50", "--json", "--model", "m"});
  ASSERT_EQ(plotted["models"][0]["points"].size(), 2);
  EXPECT_EQ(plotted["models"][0]["points"][0]["values"].size(), 2);
  EXPECT_GT(get_number(plotted["models"][0]["points"][1], "median"),
            get_number(plotted["models"][0]["points"][0], "median"));
  const std::string page = folder_.path() / "page.html";
  EXPECT_THAT(run({"show", "p50", "--html", page}), Ends(0, testing::StartsWith(page + " (")));
  EXPECT_THAT(read_text(page), AllOf(HasSubstr("id=\"history\""), HasSubstr("\"commit\":\"bbbb2222\""),
                                     HasSubstr("\"help\":\"")));
  EXPECT_EQ(run({"show", "p50", "--model", "other"}).exit_code, 2);
  EXPECT_THAT(run({"show", "p5"}).err, HasSubstr("unknown metric 'p5'; did you mean 'p50'?"));
}

TEST_P(History, EveryKeyOfJsonIsDocumentedAndLabelsAreNotMixed) {
  run({"add", copy("quick", "1", 1), "--commit", "aaaa1111", "--label", "main"});
  run({"add", copy("slow", "2", 2), "--commit", "aaaa1111", "--label", "branch"});
  EXPECT_THAT(undocumented_keys(json({"list", "--json"}), "history.md"), testing::IsEmpty());
  const Json plotted = json({"show", "p50", "--json"});
  EXPECT_THAT(undocumented_keys(plotted, "history.md"), testing::IsEmpty());
  ASSERT_EQ(plotted["models"].size(), 2);
  EXPECT_EQ(plotted["models"][0]["name"], "m, label main");
  EXPECT_EQ(plotted["models"][0]["points"][0]["values"].size(), 1);
}

TEST_P(History, StoresAllFiguresOfManyModels) {
  constexpr int kModels = 40;
  run({"add", changed("quick", "1", 1, [](Json& report) {
         const Json model = report["models"][0];
         for (int i = 1; i < kModels; ++i) {
           report["models"].push_back(model);
           report["models"].back()["name"] = fmt::format("m{}", i);
         }
       })});
  for (const char* metric : {"run_peak", "p50", "fps"}) {
    const Json models = json({"show", metric, "--json"})["models"];
    ASSERT_EQ(models.size(), kModels) << metric;
    for (const Json& model : models)
      EXPECT_EQ(model["points"][0]["median"], models[0]["points"][0]["median"]) << get_text(model, "name");
  }
}

TEST_P(History, CutsNamesBetweenCharactersAndEscapesControlCodes) {
  const std::string commit = "größe-ähnlich-wie";
  run({"add", copy("quick", "1", 1), "--commit", commit, "--label", "a\033[31mred"});
  for (const Words& words : {Words{"list"}, Words{"show", "p50"}}) {
    EXPECT_THAT(run(words), Ends(0, AllOf(HasSubstr("größe-ähnl"), testing::Not(HasSubstr("größe-ähnli")),
                                          testing::Not(HasSubstr("\033")))));
  }
  EXPECT_THAT(run({"diff", copy("quick", "2", 2)}).out, HasSubstr("run 1 (größe-ähnl)"));
  EXPECT_THAT(run({"add", folder_.path() / "1", "--label", "b"}).err,
              AllOf(HasSubstr("[31mred"), testing::Not(HasSubstr("\033"))));
}

TEST_P(History, RelabelsAndRemovesRuns) {
  const std::string first = copy("quick", "1", 1);
  run({"add", first, copy("quick", "2", 2), "--label", "main"});
  const CommandResult again = run({"add", first, "--commit", "aaaa1111", "--label", "main"});
  EXPECT_EQ(again.out, "0 of 1 run added, 1 already existed\n");
  EXPECT_THAT(again.err, AllOf(HasSubstr("run 1 already exists without a commit, label main"),
                               HasSubstr("headroom history relabel 1 --commit aaaa1111\n")));
  EXPECT_EQ(run({"relabel", "1", "2", "--commit", "aaaa1111"}).out, "2 runs changed\n");
  EXPECT_EQ(run({"relabel", "2", "--label", "none"}).out, "1 run changed\n");
  Json list = json({"list", "--json"});
  EXPECT_EQ(get_text(list["runs"][0], "commit"), "aaaa1111");
  EXPECT_EQ(get_text(list["runs"][0], "label"), "main");
  EXPECT_EQ(get_text(list["runs"][1], "commit"), "aaaa1111");
  EXPECT_FALSE(list["runs"][1].contains("label"));
  EXPECT_EQ(run({"relabel", "2", "--commit", "none"}).out, "1 run changed\n");
  EXPECT_FALSE(json({"list", "--json"})["runs"][1].contains("commit"));
  // Changes all runs or none.
  EXPECT_THAT(run({"remove", "1", "7"}),
              IsRefused(HasSubstr("no run 7 in the history: nothing was changed")));
  EXPECT_EQ(json({"list", "--json"})["runs"].size(), 2);
  EXPECT_EQ(run({"remove", "1"}).out, "1 run removed\n");
  EXPECT_EQ(json({"list", "--json"})["runs"].size(), 1);
  EXPECT_EQ(json({"show", "p50", "--json"})["models"][0]["points"].size(), 1);
  EXPECT_EQ(run({"add", first}).out, "1 of 1 run added\n");
  write_text(bench_->path() / "text.txt", "hello");
  EXPECT_THAT(run({"add", (bench_->path() / "text.txt").string()}).err,
              HasSubstr("use run folders of headroom bench, or folders of run folders"));
  for (const Words& wrong : {Words{"remove"}, Words{"remove", "x"}, Words{"remove", "0"},
                             Words{"relabel", "1"}, Words{"remove", "1", "--label", "x"}})
    EXPECT_EQ(run(wrong).exit_code, 2) << wrong.back();
}

TEST_P(History, AShortAndAFullShaAreOnePoint) {
  run({"add", copy("quick", "1", 1), "--commit", "1a2b3c4"});
  run({"add", copy("quick", "2", 2), "--commit", "1a2b3c4d5e6f"});
  run({"add", copy("quick", "3", 3), "--commit", "1a2b3c9"});
  const Json points = json({"show", "p50", "--json"})["models"][0]["points"];
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(get_text(points[0], "commit"), "1a2b3c4d5e6f");
  EXPECT_EQ(points[0]["values"].size(), 2);
}

// Another version of Headroom writes other keys into a report. An earlier version computed the run's key in
// another way.
TEST_P(History, RecognizesARunAfterAnUpdate) {
  const std::string first = copy("quick", "1", 1);
  run({"add", first});
  auto report = parse_json(read_text(first + "/report.json"));
  ASSERT_TRUE(report.has_value());
  (*report)["host"]["cpu_governor"] = "of a later version";
  write_text(first + "/report.json", report->dump());
  EXPECT_EQ(run({"add", first}).out, "0 of 1 run added, 1 already existed\n");
  EXPECT_EQ(json({"list", "--json"})["runs"].size(), 1);
}

TEST_P(History, RejectsTwoModelsOfOneName) {
  EXPECT_THAT(
      run({"add", changed("quick", "1", 1,
                          [](Json& report) { report["models"].push_back(Json(report["models"][0])); })}),
      IsRefused(HasSubstr("two of its models are named 'm'")));
}

// Eight concurrent programs. The first ones also create the tables.
TEST_P(History, ConcurrentWritersLoseNothing) {
  constexpr int kWriters = 8, kRuns = 6;
  std::array<Words, kWriters> runs;
  for (int writer = 0; writer < kWriters; ++writer)
    for (int i = 0; i < kRuns; ++i)
      runs[writer].push_back(copy("quick", fmt::format("{}-{}", writer, i), writer * kRuns + i));
  std::array<std::string, kWriters> problems;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer)
    threads.emplace_back([&, writer] {
      // Each writer uses its own commit. All writers add runs[0][0].
      for (const std::string& path : runs[writer]) {
        const CommandResult added = run({"add", path, runs[0][0], "--commit", fmt::format("c{}", writer)});
        if (added.exit_code != 0) problems[writer] += added.err;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
  const Json list = json({"list", "--json"});
  EXPECT_EQ(list["runs"].size(), kWriters * kRuns);
  const Json figures = json({"show", "run_peak", "--json"});
  std::size_t values = 0;
  for (const Json& point : figures["models"][0]["points"]) values += point["values"].size();
  EXPECT_EQ(values, kWriters * kRuns);
}

// A PostgreSQL database may contain other tables, but not with the names of the history's tables.
TEST_P(History, RejectsAForeignTableOfTheSameName) {
  if (!place_.starts_with("postgresql:")) GTEST_SKIP() << "a file contains only the history; skipped";
  ASSERT_TRUE(succeeds({"psql", "-q", place_, "-c", "CREATE TABLE headroom_runs (x int)"}));
  for (const Words& words : {Words{"list"}, Words{"add", copy("quick", "1", 1)}}) {
    EXPECT_THAT(run(words), IsRefused(AllOf(HasSubstr("its table headroom_runs belongs to another program"),
                                            HasSubstr("use another database with --db"))));
  }
}

TEST_P(History, WrongUseIsOneSentence) {
  run({"add", copy("quick", "1", 1)});
  const auto error = [&](const Words& words) { return refusal_of(run(words)); };
  EXPECT_THAT(error({}), HasSubstr("needs an action"));
  EXPECT_THAT(error({"delete"}), HasSubstr("unknown action 'delete'"));
  EXPECT_THAT(error({"add"}), HasSubstr("needs runs"));
  EXPECT_THAT(error({"add", folder_.path() / "1/footprints/m.json"}), HasSubstr("it is a footprint"));
  EXPECT_THAT(error({"list", "more"}), HasSubstr("takes no arguments"));
  EXPECT_THAT(error({"show"}), HasSubstr("needs one metric"));
  EXPECT_THAT(error({"gate"}), HasSubstr("--fail-on is missing"));
  EXPECT_THAT(error({"diff"}), HasSubstr("no earlier runs to compare with"));
  EXPECT_THAT(error({"diff", "--json", "--markdown"}), HasSubstr("cannot be combined"));
  for (const Words& words : {Words{"show", "p50", "--last", "3"}, Words{"show", "p50", "--markdown"},
                             Words{"list", "--commit", "aaaa"}, Words{"list", "--label", "x"},
                             Words{"add", folder_.path() / "1", "--model", "m"}})
    EXPECT_THAT(error(words), HasSubstr(" does not work with headroom history " + words.front()));
}

}  // namespace
}  // namespace headroom::test
