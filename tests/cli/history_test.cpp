// `headroom history` in a file of SQLite and in a real PostgreSQL, as people and CI jobs use it.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <thread>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/documented_keys.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr const char* kServerPrograms = "/usr/lib/postgresql/15/bin";

// Runs a command and waits; true if it ended well.
bool succeeds(const Words& command) {
  SpawnOptions options;
  options.command = command;
  auto child = Subprocess::spawn(options);
  return child && child->wait().success();
}

// A cluster of its own in a temporary folder: no other server is touched, and none must run. A second to
// start, so all tests have the same, and each a database of its own.
class Server {
 public:
  // Empty: it runs; else why not.
  std::string start() {
    if (!fs::exists(fs::path(kServerPrograms) / "initdb"))
      return "PostgreSQL (Debian package postgresql) is not installed";
    if (::geteuid() == 0) {  // which PostgreSQL refuses to run as
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr) return "there is no user postgres to run a server as root's child";
      prefix_ = {"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"};
      if (::chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) return "chown is not allowed";
    }
    const std::string data = folder_.path() / "data", log = folder_.path() / "log";
    if (!run({"initdb", "--auth=trust", "--username=team", "--no-sync", "-D", data})) return "initdb failed";
    started_ =
        run({"pg_ctl", "-D", data, "-l", log, "-w", "-o",
             fmt::format("-k {} -c listen_addresses='' -c fsync=off", folder_.path().string()), "start"});
    return started_ ? "" : "the server did not start: " + read_text(log);
  }
  ~Server() {
    if (started_) run({"pg_ctl", "-D", folder_.path() / "data", "-m", "immediate", "stop"});
  }
  // Of a new database; empty if there is none.
  std::string new_database() {
    const std::string name = fmt::format("history_{}", ++databases_);
    return succeeds({"psql", "-q", url_of("postgres"), "-c", "CREATE DATABASE " + name}) ? url_of(name) : "";
  }

 private:
  std::string url_of(const std::string& database) const {
    return fmt::format("postgresql:///{}?host={}&user=team", database, folder_.path().string());
  }
  bool run(Words words) const {
    words.front() = fs::path(kServerPrograms) / words.front();
    Words command = prefix_;
    command.insert(command.end(), words.begin(), words.end());
    std::string line = "exec";
    for (const std::string& word : command) line += " '" + std::string(word).append("'");
    // Its options have quotes of their own.
    if (const std::size_t at = line.find("listen_addresses=''"); at != std::string::npos)
      line.replace(at, 19, "listen_addresses=");
    return succeeds({"/bin/sh", "-c", line + " >/dev/null 2>&1"});
  }

  TemporaryFolder folder_;
  Words prefix_;
  bool started_ = false;
  int databases_ = 0;
};

// The parameter: in a file, or in PostgreSQL.
class History : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    bench_ = new Bench;
    for (const auto& [name, commands] :
         {std::pair{"quick", "run sleep 2"}, std::pair{"slow", "run sleep 9"}}) {
      const CommandResult result = bench_->run({"--backend", "misbehaving", "--max-frames", "20", "--model",
                                                "m=" + bench_->model(name, commands)});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      fs::rename(bench_->run_folder(), bench_->path() / name);
    }
  }
  static void TearDownTestSuite() {
    delete bench_;
    bench_ = nullptr;
    server_.reset();
  }
  void SetUp() override {
    if (!GetParam()) {
      place_ = folder_.path() / "history.sqlite";
      return;
    }
    if (!server_) {
      server_.emplace();
      server_problem_ = server_->start();
    }
    if (!server_problem_.empty()) GTEST_SKIP() << server_problem_ << "; skipped";
    place_ = server_->new_database();
    ASSERT_NE(place_, "");
  }
  // A run like `of`, but another one.
  std::string copy(const std::string& of, const std::string& name, int second) {
    const fs::path run = folder_.path() / name;
    fs::copy(bench_->path() / of, run, fs::copy_options::recursive);
    std::string report = read_text(run / "report.json");
    const std::string key = "\"started_at\": \"";
    const std::size_t at = report.find(key) + key.size();
    report.replace(at, 19, fmt::format("2026-11-{:02}T10:00:{:02}", 1 + second / 60, second % 60));
    write_text(run / "report.json", report);
    return run;
  }
  // The same, with its report changed.
  std::string changed(const std::string& of, const std::string& name, int second,
                      const std::function<void(Json& report)>& with) {
    const fs::path run = copy(of, name, second);
    auto report = parse_json(read_text(run / "report.json"));
    EXPECT_TRUE(report.has_value());
    with(*report);
    write_text(run / "report.json", report->dump());
    return run;
  }
  // A run of models of which nothing is known but their names.
  std::string of_models(const Words& models, const std::string& name, int second) const {
    const fs::path run = folder_.path() / name;
    auto report = parse_json(read_text(bench_->path() / "quick/report.json"));
    EXPECT_TRUE(report.has_value());
    (*report)["started_at"] = fmt::format("2026-11-30T10:{:02}:{:02}.000+00:00", second / 60, second % 60);
    (*report)["models"] = Json::array();
    for (const std::string& model : models)
      (*report)["models"].push_back(Json{{"name", model}, {"status", "ok"}});
    fs::create_directories(run);
    write_text(run / "report.json", report->dump());
    return run;
  }
  CommandResult run(Words words) const {
    words.insert(words.begin(), "history");
    words.insert(words.end(), {"--db", place_});
    CommandOptions options;
    options.environment = {{"GITHUB_SHA", ""}, {"CI_COMMIT_SHA", ""}, {"HEADROOM_HISTORY", ""}};
    return run_headroom(words, options);
  }
  Json json(const Words& words) const {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    auto document = parse_json(result.out);
    EXPECT_TRUE(document.has_value()) << result.out;
    return document ? *document : Json();
  }

  static Bench* bench_;
  static std::optional<Server> server_;
  static std::string server_problem_;
  TemporaryFolder folder_;
  std::string place_;
};
Bench* History::bench_ = nullptr;
std::optional<Server> History::server_;
std::string History::server_problem_;

INSTANTIATE_TEST_SUITE_P(, History, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "PostgreSQL" : "Sqlite"; });

TEST_P(History, KeepsARunOnce) {
  const std::string first = copy("quick", "1", 1);
  const CommandResult added = run({"add", first, "--commit", "aaaa1111", "--label", "orin's 'board'"});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  EXPECT_EQ(added.out, "1 of 1 run added\n");
  EXPECT_EQ(run({"add", first}).out, "0 of 1 run added, 1 there already\n");
  const Json list = json({"list", "--json"});
  ASSERT_EQ(list["runs"].size(), 1);
  EXPECT_EQ(get_text(list["runs"][0], "commit"), "aaaa1111");
  EXPECT_EQ(get_text(list["runs"][0], "label"), "orin's 'board'");
  EXPECT_THAT(run({"list"}).out, AllOf(HasSubstr("COMMIT"), HasSubstr("aaaa1111")));
}

TEST_P(History, PlotsAMetricOverCommits) {
  run({"add", copy("quick", "1", 1), copy("quick", "2", 2), "--commit", "aaaa1111"});
  run({"add", copy("slow", "3", 3), "--commit", "bbbb2222"});
  const CommandResult shown = run({"show", "p50"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("aaaa1111"), HasSubstr("bbbb2222"), HasSubstr("●")));
  const Json plotted = json({"show", "p50", "--json", "--model", "m"});
  ASSERT_EQ(plotted["models"][0]["points"].size(), 2);
  EXPECT_EQ(plotted["models"][0]["points"][0]["values"].size(), 2);
  EXPECT_GT(get_number(plotted["models"][0]["points"][1], "median"),
            get_number(plotted["models"][0]["points"][0], "median"));
  const std::string page = folder_.path() / "page.html";
  const CommandResult written = run({"show", "p50", "--html", page});
  EXPECT_EQ(written.exit_code, 0);
  EXPECT_EQ(written.out, page + ": p50 of m\n");
  const std::string html = read_text(page);
  EXPECT_THAT(html, AllOf(HasSubstr("<svg"), HasSubstr(">bbbb2222</text>"), HasSubstr("<th>change</th>"),
                          HasSubstr("prefers-color-scheme:dark")));
  EXPECT_EQ(run({"show", "p50", "--model", "other"}).exit_code, 2);
  EXPECT_THAT(run({"show", "p5"}).err, HasSubstr("did you mean"));
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

TEST_P(History, ThePageHasRoundNumbersAndNoPointOnItsAxis) {
  const auto peak = [](std::int64_t mebibytes) {
    return [mebibytes](Json& report) { report["models"][0]["memory"]["run_peak_bytes"] = mebibytes << 20; };
  };
  run({"add", changed("quick", "1", 1, peak(100)), "--commit", "aaaa1111"});
  run({"add", changed("quick", "2", 2, peak(130)), "--commit", "bbbb2222"});
  const std::string page = folder_.path() / "page.html";
  EXPECT_EQ(run({"show", "run_peak", "--html", page}).exit_code, 0);
  EXPECT_THAT(read_text(page), AllOf(HasSubstr(">96.0 MiB</text>"), HasSubstr(">136.0 MiB</text>"),
                                     HasSubstr("<td>+30.0 %</td>"), testing::Not(HasSubstr("cx=\"90.0\""))));
}

TEST_P(History, HoldsRunsAgainstTheLast) {
  for (int i = 1; i <= 4; ++i) run({"add", copy("quick", std::to_string(i), i), "--commit", "aaaa1111"});
  const std::string slow = copy("slow", "slow", 9);
  const CommandResult gate = run({"gate", slow, "--fail-on", "latency>+10%"});
  EXPECT_EQ(gate.exit_code, 1);
  EXPECT_THAT(gate.err, HasSubstr("'latency>+10%'"));
  EXPECT_THAT(gate.out, HasSubstr("\nA  4 runs of aaaa1111\n"));
  EXPECT_EQ(run({"gate", copy("quick", "again", 8), "--fail-on", "latency>+10%"}).exit_code, 0);
  // Without runs it is those of the newest commit.
  run({"add", slow, "--commit", "bbbb2222"});
  EXPECT_EQ(run({"gate", "--fail-on", "latency>+10%"}).exit_code, 1);
  const Json diff = json({"diff", "--json", "--last", "2"});
  EXPECT_EQ(diff["before"].size(), 2);
  EXPECT_EQ(get_text(diff, "outcome"), "worse");
  EXPECT_EQ(json({"diff", slow, "--commit", "aaaa", "--json"})["before"].size(), 4);
}

// What changed between the commits of A may hide what B changed.
TEST_P(History, TheCommitsOfASideAreToldAndSeveralAreACaveat) {
  for (int i = 1; i <= 4; ++i) run({"add", copy("quick", std::to_string(i), i), "--commit", "1111111"});
  const std::string now = copy("quick", "now", 60);
  EXPECT_THAT(run({"diff", now}).out, testing::Not(HasSubstr("several commits")));
  // One commit by two of its forms.
  run({"add", copy("quick", "5", 5), copy("quick", "6", 6), "--commit", "3333333"});
  run({"add", copy("quick", "7", 7), "--commit", "3333333abcdef"});
  run({"add", now, copy("quick", "now2", 61), "--commit", "4444444"});
  for (const Words& view : {Words{"diff"}, Words{"diff", "--markdown"}}) {
    const CommandResult diff = run(view);
    EXPECT_THAT(diff.out, HasSubstr("the last 7 runs before: 3 of 3333333abc, 4 of 1111111")) << diff.err;
    EXPECT_THAT(diff.out, HasSubstr("2 runs of 4444444\n"));
  }
  EXPECT_THAT(
      json({"diff", "--json"})["caveats"].dump(),
      AllOf(HasSubstr("the runs of A are of several commits"), HasSubstr("--commit 3333333abcdef compares")));
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
  EXPECT_EQ(json({"diff", now, "--host", "xavier", "--json"})["before"][0], "run 2 (aaaa)");
  EXPECT_THAT(run({"diff", changed("quick", "5", 5, board("nano"))}).err,
              HasSubstr("no other run of these models on nano"));
  // A plot has a line a machine.
  EXPECT_EQ(json({"show", "p50", "--model", "m", "--json"})["models"].size(), 2);
  EXPECT_EQ(json({"show", "p50", "--model", "m", "--host", "orin", "--json"})["models"].size(), 1);
  EXPECT_THAT(run({"show", "p50", "--host", "nope"}).err,
              HasSubstr("no run of the history on nope has p50;"));
  EXPECT_THAT(run({"show", "p50", "--model", "m", "--label", "x"}).err,
              HasSubstr("no run of the history with the label 'x' has p50 of m;"));

  run({"add", changed("slow", "6", 6, board("orin")), "--commit", "bbbb", "--label", "branch"});
  const CommandResult unclear = run({"diff", now});
  EXPECT_EQ(unclear.exit_code, 2);
  EXPECT_THAT(unclear.err, AllOf(HasSubstr("not clear"), HasSubstr("none, branch"), HasSubstr("--label")));
  EXPECT_EQ(json({"diff", now, "--label", "none", "--json"})["before"][0], "run 1 (aaaa)");
  EXPECT_EQ(json({"diff", now, "--label", "branch", "--json"})["before"][0], "run 4 (bbbb)");
  EXPECT_THAT(run({"diff", now, "--host", "xavier", "--label", "none", "--commit", "bbbb"}).err,
              HasSubstr("no other run of these models on xavier without a label of commit bbbb"));
}

// Others may be labelled as they like; only what is compared must be of one label.
TEST_P(History, LabelsOfRunsThatAreNotComparedMakeNothingUnclear) {
  run({"add", copy("quick", "1", 1), copy("quick", "2", 2), "--label", "main"});
  const std::string third = copy("quick", "3", 3);
  run({"add", copy("quick", "9", 9), "--label", "later-branch"});
  EXPECT_EQ(json({"diff", third, "--json"})["before"], Json::array({"run 1", "run 2"}));
  // Nor those before the last ones.
  const std::string tenth = copy("quick", "10", 10);
  EXPECT_EQ(json({"diff", tenth, "--last", "1", "--json"})["before"], Json::array({"run 3"}));
  const CommandResult unclear = run({"diff", tenth});
  EXPECT_EQ(unclear.exit_code, 2);
  EXPECT_THAT(unclear.err, HasSubstr("have the labels later-branch, main; name one: --label main"));
}

// Far more pairs of a run and a model than PostgreSQL takes variables (65,535).
TEST_P(History, RunsOfManyModelsAreAskedForInParts) {
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

TEST_P(History, AllFiguresOfManyModelsAreKept) {
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

TEST_P(History, NamesAreCutBetweenCharactersAndSteerNoTerminal) {
  const std::string commit = "größe-ähnlich-wie";
  run({"add", copy("quick", "1", 1), "--commit", commit, "--label", "a\033[31mred"});
  for (const Words& words : {Words{"list"}, Words{"show", "p50"}}) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("größe-ähnl"), testing::Not(HasSubstr("größe-ähnli")),
                                  testing::Not(HasSubstr("\033"))));
  }
  EXPECT_THAT(run({"diff", copy("quick", "2", 2)}).out, HasSubstr("run 1 (größe-ähnl)"));
  EXPECT_THAT(run({"add", folder_.path() / "1", "--label", "b"}).err,
              AllOf(HasSubstr("[31mred"), testing::Not(HasSubstr("\033"))));
}

TEST_P(History, AnOldRunIsHeldAgainstThoseBeforeIt) {
  run({"add", copy("quick", "1", 1), "--commit", "aaaa"});
  const std::string old = copy("quick", "2", 2);
  run({"add", old, "--commit", "bbbb"});
  run({"add", copy("slow", "3", 3), "--commit", "cccc"});
  EXPECT_EQ(json({"diff", old, "--json"})["before"], Json::array({"run 1 (aaaa)"}));
  EXPECT_EQ(json({"diff", old, "--commit", "cccc", "--json"})["before"], Json::array({"run 3 (cccc)"}));
  // Of several the last one counts.
  EXPECT_EQ(json({"diff", old, copy("slow", "4", 4), "--json"})["before"],
            Json::array({"run 1 (aaaa)", "run 3 (cccc)"}));
  const CommandResult first = run({"diff", copy("quick", "0", 0)});
  EXPECT_EQ(first.exit_code, 2);
  EXPECT_THAT(first.err, HasSubstr("made before 2026-11-01T10:00:00"));
}

TEST_P(History, TheNewestCommitIsAllOfItsRuns) {
  run({"add", copy("quick", "1", 1), "--commit", "aaaa"});
  run({"add", copy("slow", "2", 2), "--commit", "bbbb"});
  run({"add", copy("quick", "3", 3), "--commit", "aaaa"});
  run({"add", copy("slow", "4", 4), "--commit", "bbbb"});
  const Json diff = json({"diff", "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 1 (aaaa)", "run 3 (aaaa)"}));
  EXPECT_EQ(diff["after"], Json::array({"run 2 (bbbb)", "run 4 (bbbb)"}));
  EXPECT_EQ(json({"diff", "--commit", "aa", "--json"})["before"].size(), 2);
  EXPECT_THAT(run({"diff", "--commit", "bbbb"}).err, HasSubstr("it is the newest commit itself"));
}

TEST_P(History, OfANamedHostTheNewestRunsAreItsOwn) {
  const auto of_board = [](const char* name) {
    return [name](Json& report) { report["host"]["board"] = name; };
  };
  run({"add", changed("quick", "1", 1, of_board("orin")), "--commit", "aaaa"});
  run({"add", changed("quick", "2", 2, of_board("orin")), "--commit", "bbbb"});
  run({"add", changed("slow", "3", 3, of_board("xavier")), "--commit", "cccc"});
  const Json diff = json({"diff", "--host", "orin", "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 1 (aaaa)"}));
  EXPECT_EQ(diff["after"], Json::array({"run 2 (bbbb)"}));
  EXPECT_THAT(run({"diff", "--host", "nano"}).err, HasSubstr("the history has no run of nano"));
}

// Jobs end in another order than they began in: what counts is when a run was made.
TEST_P(History, RunsThatAreAddedLateStandWhereTheyWereMade) {
  run({"add", copy("quick", "2", 2), "--commit", "bbbb"});
  run({"add", copy("slow", "3", 3), "--commit", "cccc"});
  run({"add", copy("quick", "1", 1), "--commit", "aaaa"});
  const Json diff = json({"diff", "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 3 (aaaa)", "run 1 (bbbb)"}));
  EXPECT_EQ(diff["after"], Json::array({"run 2 (cccc)"}));
  const std::string plot = run({"show", "run_peak"}).out;
  EXPECT_LT(plot.find("aaaa"), plot.find("bbbb"));
  EXPECT_LT(plot.find("bbbb"), plot.find("cccc"));
}

TEST_P(History, TimesOfOtherZonesAreOneTime) {
  const auto at = [](const char* time) { return [time](Json& report) { report["started_at"] = time; }; };
  run({"add", changed("quick", "1", 1, at("2026-11-23T10:00:00+00:00")), "--commit", "aaaa"});
  // Half past eleven in Greenwich, where it is the later one.
  run({"add", changed("quick", "2", 2, at("2026-11-23T06:30:00.500-05:00")), "--commit", "bbbb"});
  run({"add", changed("quick", "3", 3, at("2026-11-23T16:00:00+0545")), "--commit", "cccc"});
  const Json diff = json({"diff", "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 1 (aaaa)", "run 3 (cccc)"}));
  EXPECT_EQ(diff["after"], Json::array({"run 2 (bbbb)"}));
  EXPECT_THAT(run({"list"}).out, HasSubstr("2026-11-23T06:30:00-05:00"));
}

TEST_P(History, RunsAreRelabelledAndRemoved) {
  const std::string first = copy("quick", "1", 1);
  run({"add", first, copy("quick", "2", 2), "--label", "main"});
  const CommandResult again = run({"add", first, "--commit", "aaaa1111", "--label", "main"});
  EXPECT_EQ(again.out, "0 of 1 run added, 1 there already\n");
  EXPECT_THAT(again.err, AllOf(HasSubstr("run 1 was there already without a commit, label main"),
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
  // All of them or none.
  const CommandResult absent = run({"remove", "1", "7"});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("the history has no run 7: nothing was changed"));
  EXPECT_EQ(json({"list", "--json"})["runs"].size(), 2);
  EXPECT_EQ(run({"remove", "1"}).out, "1 run removed\n");
  EXPECT_EQ(json({"list", "--json"})["runs"].size(), 1);
  EXPECT_EQ(json({"show", "p50", "--json"})["models"][0]["points"].size(), 1);
  EXPECT_EQ(run({"add", first}).out, "1 of 1 run added\n");
  write_text(bench_->path() / "text.txt", "hello");
  EXPECT_THAT(run({"add", (bench_->path() / "text.txt").string()}).err,
              HasSubstr("name run folders of headroom bench, or folders of them"));
  for (const Words& wrong : {Words{"remove"}, Words{"remove", "x"}, Words{"remove", "0"},
                             Words{"relabel", "1"}, Words{"remove", "1", "--label", "x"}})
    EXPECT_EQ(run(wrong).exit_code, 2) << wrong.back();
}

TEST_P(History, AShortShaAndTheWholeOneAreOnePoint) {
  run({"add", copy("quick", "1", 1), "--commit", "1a2b3c4"});
  run({"add", copy("quick", "2", 2), "--commit", "1a2b3c4d5e6f"});
  run({"add", copy("quick", "3", 3), "--commit", "1a2b3c9"});
  const Json points = json({"show", "p50", "--json"})["models"][0]["points"];
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(get_text(points[0], "commit"), "1a2b3c4d5e6f");
  EXPECT_EQ(points[0]["values"].size(), 2);
}

// A commit is itself, and not all whose names begin with its own; a short SHA and the whole one are the same.
TEST_P(History, CommitsAreToldApartByTheirWholeNames) {
  run({"add", copy("quick", "1", 1), "--commit", "base"});
  run({"add", copy("slow", "2", 2), "--commit", "v1.2-rc1"});
  run({"add", copy("quick", "3", 3), "--commit", "v1.2"});
  const Json diff = json({"diff", "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 1 (base)", "run 2 (v1.2-rc1)"}));
  EXPECT_EQ(diff["after"], Json::array({"run 3 (v1.2)"}));
  const std::string now = copy("quick", "4", 4);
  EXPECT_EQ(json({"diff", now, "--commit", "v1.2", "--json"})["before"], Json::array({"run 3 (v1.2)"}));
  const CommandResult ambiguous = run({"diff", now, "--commit", "v1"});
  EXPECT_EQ(ambiguous.exit_code, 2);
  EXPECT_THAT(ambiguous.err, HasSubstr("the commit v1 is ambiguous: the history has v1.2, v1.2-rc1"));
  EXPECT_EQ(json({"diff", now, "--commit", "ba", "--json"})["before"], Json::array({"run 1 (base)"}));
  run({"add", copy("quick", "5", 5), "--commit", "1a2b3c4d"});
  run({"add", copy("quick", "6", 6), "--commit", "1a2b3c4d5e6f"});
  const Json newest = json({"diff", "--json"});
  EXPECT_EQ(newest["before"].size(), 3) << "not those of the same commit, named shorter";
  EXPECT_EQ(newest["after"].size(), 2) << "which are of the newest commit, too";
  EXPECT_EQ(json({"diff", now, "--commit", "1a2b3c4d5e", "--json"})["before"].size(), 2);
  EXPECT_THAT(run({"diff", "--last", "1001"}).err, HasSubstr("a side has at most 1000"));
}

// As `git describe --dirty` names it.
TEST_P(History, ACommitWithMoreThanItsShaIsAnotherOne) {
  run({"add", copy("quick", "1", 1), "--commit", "1a2b3c4"});
  run({"add", copy("quick", "2", 2), "--commit", "1a2b3c4-dirty"});
  const Json diff = json({"diff", "--json"});
  EXPECT_EQ(diff["before"], Json::array({"run 1 (1a2b3c4)"}));
  EXPECT_EQ(diff["after"], Json::array({"run 2 (1a2b3c4-di)"}));
  EXPECT_EQ(json({"diff", "--commit", "1a2b3c4", "--json"})["before"], Json::array({"run 1 (1a2b3c4)"}));
}

TEST_P(History, AnAmbiguousCommitIsToldByTheFirstFew) {
  for (int i = 1; i <= 7; ++i)
    run({"add", copy("quick", std::to_string(i), i), "--commit", fmt::format("v1.{}", i)});
  EXPECT_THAT(run({"diff", "--commit", "v1"}).err,
              HasSubstr("the history has v1.1, v1.2, v1.3, v1.4, v1.5 and 2 more; give more"));
}

// Another version of Headroom writes other keys into a report; an earlier one kept runs by another key.
TEST_P(History, ARunIsKnownAgainAfterAnUpdate) {
  const std::string first = copy("quick", "1", 1);
  run({"add", first});
  auto report = parse_json(read_text(first + "/report.json"));
  ASSERT_TRUE(report.has_value());
  (*report)["host"]["cpu_governor"] = "of a later version";
  write_text(first + "/report.json", report->dump());
  EXPECT_EQ(run({"add", first}).out, "0 of 1 run added, 1 there already\n");
  EXPECT_EQ(json({"list", "--json"})["runs"].size(), 1);
}

TEST_P(History, TwoModelsOfOneNameAreRefused) {
  const CommandResult result = run({"add", changed("quick", "1", 1, [](Json& report) {
                                      report["models"].push_back(Json(report["models"][0]));
                                    })});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("two of its models are named 'm'"));
}

// Eight programs at once, the first of which also make the tables.
TEST_P(History, WritersAtOnceLoseNothing) {
  constexpr int kWriters = 8, kRuns = 6;
  std::array<Words, kWriters> runs;
  for (int writer = 0; writer < kWriters; ++writer)
    for (int i = 0; i < kRuns; ++i)
      runs[writer].push_back(copy("quick", fmt::format("{}-{}", writer, i), writer * kRuns + i));
  std::array<std::string, kWriters> problems;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer)
    threads.emplace_back([&, writer] {
      // Its own commit for the first of its runs; one run comes from all writers.
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

// In a team's database other tables are at home, but not where the history's own would stand.
TEST_P(History, ATableOfSomethingElseIsNotTakenForItsOwn) {
  if (!place_.starts_with("postgresql:")) GTEST_SKIP() << "a file is the history's own; skipped";
  ASSERT_TRUE(succeeds({"psql", "-q", place_, "-c", "CREATE TABLE headroom_runs (x int)"}));
  for (const Words& words : {Words{"list"}, Words{"add", copy("quick", "1", 1)}}) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("its table headroom_runs is of something else"),
                                  HasSubstr("name another database with --db")));
  }
}

TEST_P(History, WrongUseIsOneSentence) {
  run({"add", copy("quick", "1", 1)});
  const auto error = [&](const Words& words) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({}), HasSubstr("takes an action"));
  EXPECT_THAT(error({"delete"}), HasSubstr("no action 'delete'"));
  EXPECT_THAT(error({"add"}), HasSubstr("takes runs"));
  EXPECT_THAT(error({"add", folder_.path() / "1/footprints/m.json"}), HasSubstr("it is a footprint"));
  EXPECT_THAT(error({"list", "more"}), HasSubstr("takes no runs"));
  EXPECT_THAT(error({"show"}), HasSubstr("takes one metric"));
  EXPECT_THAT(error({"gate"}), HasSubstr("--fail-on is not given"));
  EXPECT_THAT(error({"diff"}), HasSubstr("nothing to compare with"));
  EXPECT_THAT(error({"diff", "--json", "--markdown"}), HasSubstr("two views"));
  for (const Words& words : {Words{"show", "p50", "--last", "3"}, Words{"show", "p50", "--markdown"},
                             Words{"list", "--commit", "aaaa"}, Words{"list", "--label", "x"},
                             Words{"add", folder_.path() / "1", "--model", "m"}})
    EXPECT_THAT(error(words), HasSubstr(" is not for headroom history " + words.front()));
}

TEST(HistoryFile, WhatIsNoHistoryIsRefused) {
  TemporaryFolder folder;
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  const std::string run_folder = bench.run_folder(), file = folder.path() / "file";
  const auto error = [&](Words words) {
    words.insert(words.begin(), "history");
    words.insert(words.end(), {"--db", file});
    const CommandResult result = run_headroom(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"list"}), HasSubstr("there is no history"));
  EXPECT_FALSE(fs::exists(file));
  write_text(
      file,
      "not a database, and longer than the header of one would be: 100 bytes and more of ordinary text …");
  EXPECT_THAT(error({"list"}), HasSubstr("no database of SQLite"));
  EXPECT_THAT(error({"add", run_folder}), HasSubstr("no database of SQLite"));
  fs::remove(file);
  ASSERT_EQ(run_headroom({"history", "add", run_folder, "--db", file}).exit_code, 0);
  const std::string whole = read_text(file);
  std::string damaged = whole;
  std::fill(damaged.begin() + 4096, damaged.end(), '\x5a');
  write_text(file, damaged);
  EXPECT_THAT(error({"list"}), HasSubstr("damaged"));
  // A history of a later Headroom.
  std::string later = whole;
  const std::string entry = "schema_version1";
  const std::size_t at = later.find(entry);
  ASSERT_NE(at, std::string::npos);
  later[at + entry.size() - 1] = '9';
  write_text(file, later);
  EXPECT_THAT(error({"list"}), AllOf(HasSubstr("schema version 9"), HasSubstr("update Headroom")));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(error({"list"}), HasSubstr("it is no file"));
}

// Places that SQLite would take, and keep nothing or make a file of that name.
TEST(HistoryFile, APlaceThatKeepsNothingIsRefused) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  CommandOptions options;
  options.folder = bench.path();
  for (const char* place : {":memory:", "file:history.sqlite?mode=memory", "mysql://me:secret@server/runs",
                            "host=server dbname=runs"}) {
    const CommandResult result = run_headroom({"history", "add", bench.run_folder(), "--db", place}, options);
    EXPECT_EQ(result.exit_code, 2) << place;
    EXPECT_THAT(result.err, AllOf(HasSubstr("postgresql://"), testing::Not(HasSubstr("secret")))) << place;
    EXPECT_FALSE(fs::exists(bench.path() / place));
  }
}

// Whoever runs the command in CI has its words in a log that all can read.
TEST(HistoryFile, NoSentenceRepeatsAPassword) {
  const auto error = [](const std::string& place) {
    const CommandResult result = run_headroom({"history", "list", "--db", place});
    EXPECT_EQ(result.exit_code, 2) << place;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const char* piece : {"hun", "ter2"})
      EXPECT_THAT(result.err, testing::Not(HasSubstr(piece))) << place;
    return result.err;
  };
  const std::string server = "127.0.0.1:1/runs";
  if (error("postgresql://" + server).find("cannot use PostgreSQL") != std::string::npos)
    GTEST_SKIP() << "libpq5 is not installed; skipped";
  // What libpq cannot read, or reads as something else.
  for (const std::string& url :
       {"postgresql://me:hun%zzter2@" + server, "postgresql://me:hun/ter2@" + server,
        "postgresql://me:12/hunter2@" + server, "postgresql://me:hun@ter2@" + server,
        "postgresql://me:hun?t/ter2@" + server, std::string("postgresql://me:hunter2"),
        std::string("postgresql://[::1:hunter2"), "postgresql://me%3Ahunter2@" + server,
        "postgresql://" + server + "?password=hun%zzter2", "postgresql://" + server + "?password=hun=ter2",
        "postgresql://" + server + "?password=hun&ter2", "postgresql://" + server + "?PASSWORD=hunter2"})
    EXPECT_THAT(error(url), AllOf(HasSubstr("cannot open the history postgresql://…: "),
                                  HasSubstr("percent-encode"), HasSubstr("PGPASSWORD or ~/.pgpass")))
        << url;
  EXPECT_THAT(error("postgresql://me@127.0.0.1:99999/runs"),
              AllOf(HasSubstr("its port is beyond 65535"), testing::Not(HasSubstr("percent-encode"))));
  // What it reads: who, where and which database are told.
  for (const std::string& url :
       {"postgresql://me:hunter2@" + server, "postgres://me:hun%2Fter2@" + server,
        "postgresql://me:hun?ter2#@" + server, "postgresql://me@" + server + "?pass%77ord=hunter2",
        "postgresql://me@" + server + "?sslpassword=hun1&password=ter2"})
    EXPECT_THAT(error(url), HasSubstr("cannot open the history postgresql://me@127.0.0.1:1/runs: ")) << url;
  // What is no URL.
  for (const char* place :
       {"host=127.0.0.1 password=hunter2", "password = hunter2", "sslmode=disable\tpassword=hunter2",
        "sslpassword=hunter2", "postgresql:/me:hunter2@host/runs", "postgres:me@host?password=hunter2",
        "me:hunter2@host:5432/runs", "jdbc:postgresql://host/runs?password=hunter2"})
    EXPECT_THAT(error(place), HasSubstr("postgresql://user@host/database")) << place;
}

// An earlier version kept runs by another key.
TEST(HistoryFile, ARunThatAnEarlierVersionKeptIsNotComparedWithItself) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  const std::string run_folder = bench.run_folder(), file = bench.path() / "history.sqlite";
  ASSERT_EQ(run_headroom({"history", "add", run_folder, "--db", file}).exit_code, 0);
  // In a row of the table the key stands before when the run was made; it is in an index, too.
  std::string bytes = read_text(file);
  constexpr std::size_t kKeySize = 16;
  const std::string started = get_text(bench.report(), "started_at");
  std::string key;
  for (std::size_t at = bytes.find(started); at != std::string::npos; at = bytes.find(started, at + 1))
    if (const std::string before = bytes.substr(at - kKeySize, kKeySize);
        before.find_first_not_of("0123456789abcdef") == std::string::npos)
      key = before;
  ASSERT_FALSE(key.empty());
  for (std::size_t at = bytes.find(key); at != std::string::npos; at = bytes.find(key, at + 1))
    bytes.replace(at, kKeySize, std::string(kKeySize, '0'));
  write_text(file, bytes);
  EXPECT_EQ(run_headroom({"history", "add", run_folder, "--db", file}).out,
            "0 of 1 run added, 1 there already\n");
  const CommandResult diff = run_headroom({"history", "diff", run_folder, "--db", file});
  EXPECT_EQ(diff.exit_code, 2) << diff.out;
  EXPECT_THAT(diff.err, HasSubstr("nothing to compare with"));
}

// Its report was changed in the file, or kept by a later Headroom.
TEST(HistoryFile, AKeptRunThatCannotBeReadIsOneSentenceWithOneFix) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  const std::string file = bench.path() / "history.sqlite";
  ASSERT_EQ(
      run_headroom({"history", "add", bench.run_folder(), "--commit", "1a2b3c4", "--db", file}).exit_code, 0);
  const std::string whole = read_text(file), begin = "{\"schema_version\":1,";
  const std::size_t at = whole.find(begin);
  ASSERT_NE(at, std::string::npos);
  const auto error = [&](const std::string& changed) {
    std::string bytes = whole;
    write_text(file, bytes.replace(at, changed.size(), changed));
    return run_headroom({"history", "diff", "--db", file}).err;
  };
  const std::string damaged = error("(\"");
  EXPECT_THAT(damaged, AllOf(HasSubstr("error: run 1 (1a2b3c4) of the history is not valid JSON: "),
                             HasSubstr("; headroom history remove 1 takes it out\n")));
  EXPECT_EQ(damaged.find("run 1"), damaged.rfind("run 1")) << damaged;
  EXPECT_THAT(error("{\"schema_version\":9,"),
              AllOf(HasSubstr("/schema_version is 9"), HasSubstr("; use a newer Headroom\n")));
}

TEST(HistoryFile, ADiskThatTakesNoMoreIsTold) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  const std::string file = bench.path() / "history.sqlite";
  const Words add{"history", "add", bench.run_folder(), "--db", file};
  CommandOptions options;
  options.most_file_bytes = 8192;
  const CommandResult full = run_headroom(add, options);
  EXPECT_EQ(full.exit_code, 2) << full.out;
  EXPECT_THAT(full.err, AllOf(HasSubstr("disk I/O error"), HasSubstr("`ulimit -f`")));
  EXPECT_THAT(run_headroom({"history", "list", "--db", file}).err, HasSubstr("nothing was added to it yet"));
  EXPECT_EQ(run_headroom(add).out, "1 of 1 run added\n");
}

// That it is not there would be wrong, and its runs not lost.
TEST(HistoryFile, AFileThatCannotBeLookedForIsNotCalledAbsent) {
  TemporaryFolder folder;
  const CommandResult result =
      run_headroom({"history", "list", "--db", folder.path() / std::string(300, 'x')});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot open the history"), HasSubstr("File name too long")));
}

TEST(HistoryFile, AServerThatIsNotThereIsToldWithoutThePassword) {
  const CommandResult result =
      run_headroom({"history", "list", "--db", "postgresql://me:secret@127.0.0.1:1/x?connect_timeout=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot"), testing::Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace headroom::test
