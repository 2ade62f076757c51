// Errors for a history that is damaged, full, missing or not a history. Messages contain no password.
#include "cli/command.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(HistoryFile, RejectsAFileThatIsNotAHistory) {
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
  EXPECT_THAT(error({"list"}), HasSubstr("history not found"));
  EXPECT_FALSE(fs::exists(file));
  write_text(
      file,
      "not a database, and longer than the header of one would be: 100 bytes and more of ordinary text …");
  EXPECT_THAT(error({"list"}), HasSubstr("not an SQLite database"));
  EXPECT_THAT(error({"add", run_folder}), HasSubstr("not an SQLite database"));
  fs::remove(file);
  ASSERT_EQ(run_headroom({"history", "add", run_folder, "--db", file}).exit_code, 0);
  const std::string whole = read_text(file);
  std::string damaged = whole;
  std::fill(damaged.begin() + 4096, damaged.end(), '\x5a');
  write_text(file, damaged);
  EXPECT_THAT(error({"list"}), HasSubstr("damaged"));
  // A history of a newer Headroom.
  std::string later = whole;
  const std::string entry = "schema_version1";
  const std::size_t at = later.find(entry);
  ASSERT_NE(at, std::string::npos);
  later[at + entry.size() - 1] = '9';
  write_text(file, later);
  EXPECT_THAT(error({"list"}), AllOf(HasSubstr("schema version 9"), HasSubstr("update Headroom")));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(error({"list"}), HasSubstr("it is not a file"));
}

// Names that SQLite would accept: it would store nothing, or create a file of that name.
TEST(HistoryFile, RejectsPlacesThatStoreNothing) {
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

// In CI, the messages end up in a log that many people can read.
TEST(HistoryFile, NoMessageContainsAPassword) {
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
  // URLs that libpq cannot read, or splits in the wrong place.
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
              AllOf(HasSubstr("its port is greater than 65535"), testing::Not(HasSubstr("percent-encode"))));
  // Valid URLs: the message contains user, host and database.
  for (const std::string& url :
       {"postgresql://me:hunter2@" + server, "postgres://me:hun%2Fter2@" + server,
        "postgresql://me:hun?ter2#@" + server, "postgresql://me@" + server + "?pass%77ord=hunter2",
        "postgresql://me@" + server + "?sslpassword=hun1&password=ter2"})
    EXPECT_THAT(error(url), HasSubstr("cannot open the history postgresql://me@127.0.0.1:1/runs: ")) << url;
  // Names that are not URLs.
  for (const char* place :
       {"host=127.0.0.1 password=hunter2", "password = hunter2", "sslmode=disable\tpassword=hunter2",
        "sslpassword=hunter2", "postgresql:/me:hunter2@host/runs", "postgres:me@host?password=hunter2",
        "me:hunter2@host:5432/runs", "jdbc:postgresql://host/runs?password=hunter2"})
    EXPECT_THAT(error(place), HasSubstr("postgresql://user@host/database")) << place;
}

// An earlier version computed the run's key in another way.
TEST(HistoryFile, ARunOfAnOlderVersionIsNotComparedWithItself) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  const std::string run_folder = bench.run_folder(), file = bench.path() / "history.sqlite";
  ASSERT_EQ(run_headroom({"history", "add", run_folder, "--db", file}).exit_code, 0);
  // In the table's row, the key comes before the start time. It is in an index too.
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
            "0 of 1 run added, 1 already existed\n");
  const CommandResult diff = run_headroom({"history", "diff", run_folder, "--db", file});
  EXPECT_EQ(diff.exit_code, 2) << diff.out;
  EXPECT_THAT(diff.err, HasSubstr("no earlier runs to compare with"));
}

// The stored report is damaged, or was written by a newer Headroom.
TEST(HistoryFile, AnUnreadableStoredRunIsOneSentenceWithOneFix) {
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
                             HasSubstr("; remove it with headroom history remove 1\n")));
  EXPECT_EQ(damaged.find("run 1"), damaged.rfind("run 1")) << damaged;
  EXPECT_THAT(error("{\"schema_version\":9,"),
              AllOf(HasSubstr("/schema_version is 9"), HasSubstr("; use a newer Headroom\n")));
}

TEST(HistoryFile, ReportsAFullDisk) {
  Bench bench;
  bench.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench.model("m", "")});
  const std::string file = bench.path() / "history.sqlite";
  const Words add{"history", "add", bench.run_folder(), "--db", file};
  CommandOptions options;
  options.most_file_bytes = 8192;
  const CommandResult full = run_headroom(add, options);
  EXPECT_EQ(full.exit_code, 2) << full.out;
  EXPECT_THAT(full.err, AllOf(HasSubstr("disk I/O error"), HasSubstr("`ulimit -f`")));
  EXPECT_THAT(run_headroom({"history", "list", "--db", file}).err, HasSubstr("no run was added yet"));
  EXPECT_EQ(run_headroom(add).out, "1 of 1 run added\n");
}

// "Not found" would be wrong: the history may exist.
TEST(HistoryFile, AnInaccessibleFileIsNotReportedAsMissing) {
  TemporaryFolder folder;
  const CommandResult result =
      run_headroom({"history", "list", "--db", folder.path() / std::string(300, 'x')});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot open the history"), HasSubstr("File name too long")));
}

TEST(HistoryFile, ReportsAMissingServerWithoutThePassword) {
  const CommandResult result =
      run_headroom({"history", "list", "--db", "postgresql://me:secret@127.0.0.1:1/x?connect_timeout=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot"), testing::Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace headroom::test
