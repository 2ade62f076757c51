// Test fixture: a history in an SQLite file or in PostgreSQL, with bench runs that are made once for the
// suite.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/postgres_server.h"

namespace headroom::test {

// The parameter: false for a file, true for PostgreSQL.
class History : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    bench_ = new Bench;
    for (const auto& [name, commands] :
         {std::pair{"quick", "run sleep 2"}, std::pair{"slow", "run sleep 9"}}) {
      const CommandResult result = bench_->run({"--backend", "misbehaving", "--max-frames", "20", "--model",
                                                "m=" + bench_->model(name, commands)});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      std::filesystem::rename(bench_->run_folder(), bench_->path() / name);
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
  // A copy of run `of` with another start time.
  std::string copy(const std::string& of, const std::string& name, int second) {
    const std::filesystem::path run = folder_.path() / name;
    std::filesystem::copy(bench_->path() / of, run, std::filesystem::copy_options::recursive);
    std::string report = read_text(run / "report.json");
    const std::string key = "\"started_at\": \"";
    const std::size_t at = report.find(key) + key.size();
    report.replace(at, 19, fmt::format("2026-11-{:02}T10:00:{:02}", 1 + second / 60, second % 60));
    write_text(run / "report.json", report);
    return run;
  }
  // The same, with a changed report.
  std::string changed(const std::string& of, const std::string& name, int second,
                      const std::function<void(Json& report)>& with) {
    const std::filesystem::path run = copy(of, name, second);
    auto report = parse_json(read_text(run / "report.json"));
    EXPECT_TRUE(report.has_value());
    with(*report);
    write_text(run / "report.json", report->dump());
    return run;
  }
  // A run whose models have only names.
  std::string of_models(const Words& models, const std::string& name, int second) const {
    const std::filesystem::path run = folder_.path() / name;
    auto report = parse_json(read_text(bench_->path() / "quick/report.json"));
    EXPECT_TRUE(report.has_value());
    (*report)["started_at"] = fmt::format("2026-11-30T10:{:02}:{:02}.000+00:00", second / 60, second % 60);
    (*report)["models"] = Json::array();
    for (const std::string& model : models)
      (*report)["models"].push_back(Json{{"name", model}, {"status", "ok"}});
    std::filesystem::create_directories(run);
    write_text(run / "report.json", report->dump());
    return run;
  }
  CommandResult run(const Words& words) const {
    CommandOptions options;
    options.environment = {{"GITHUB_SHA", ""}, {"CI_COMMIT_SHA", ""}, {"HEADROOM_HISTORY", ""}};
    return run_headroom(joined({{"history"}, words, {"--db", place_}}), options);
  }
  Json json(const Words& words) const {
    const CommandResult result = run(words);
    EXPECT_THAT(result, Ends(0));
    return json_of(result);
  }
  // The runs that `headroom history diff WORDS` compares.
  Json diff(Words words) const {
    words.insert(words.begin(), "diff");
    words.push_back("--json");
    return json(words);
  }
  void expect_before(const Words& words, const Words& before) const {
    EXPECT_EQ(diff(words)["before"], Json(before));
  }
  void expect_sides(const Words& words, const Words& before, const Words& after) const {
    expect_before(words, before);
    EXPECT_EQ(diff(words)["after"], Json(after));
  }

  static inline Bench* bench_ = nullptr;
  static inline std::optional<PostgresServer> server_;
  static inline std::string server_problem_;
  TemporaryFolder folder_;
  std::string place_;
};

}  // namespace headroom::test
