// Errors for a history that is damaged, full, missing or not a history. Messages contain no password.
#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A run, and the place of a history.
class HistoryFile : public testing::Test {
 protected:
  HistoryFile() {
    bench_.run({"--backend", "misbehaving", "--max-frames", "3", "--model", "m=" + bench_.model("m", "")});
    run_folder_ = bench_.run_folder();
  }
  static CommandResult history(const Words& words, const std::string& place,
                               const CommandOptions& options = {}) {
    return run_headroom(joined({{"history"}, words, {"--db", place}}), options);
  }
  // The one sentence of a failure.
  static std::string error(const Words& words, const std::string& place) {
    return refusal_of(history(words, place));
  }
  Bench bench_;
  std::string run_folder_;
  const std::string file_ = bench_.path() / "history.sqlite";
};

TEST_F(HistoryFile, RejectsAFileThatIsNotAHistory) {
  EXPECT_THAT(error({"list"}, file_), HasSubstr("history not found"));
  EXPECT_FALSE(fs::exists(file_));
  write_text(
      file_,
      "not a database, and longer than the header of one would be: 100 bytes and more of ordinary text …");
  EXPECT_THAT(error({"list"}, file_), HasSubstr("not an SQLite database"));
  EXPECT_THAT(error({"add", run_folder_}, file_), HasSubstr("not an SQLite database"));
  fs::remove(file_);
  ASSERT_EQ(history({"add", run_folder_}, file_).exit_code, 0);
  const std::string whole = read_text(file_);
  std::string damaged = whole;
  std::fill(damaged.begin() + 4096, damaged.end(), '\x5a');
  write_text(file_, damaged);
  EXPECT_THAT(error({"list"}, file_), HasSubstr("damaged"));
  // A history of a newer Headroom.
  std::string later = whole;
  const std::string entry = "schema_version1";
  const std::size_t at = later.find(entry);
  ASSERT_NE(at, std::string::npos);
  later[at + entry.size() - 1] = '9';
  write_text(file_, later);
  EXPECT_THAT(error({"list"}, file_), AllOf(HasSubstr("schema version 9"), HasSubstr("update Headroom")));
  fs::remove(file_);
  fs::create_directory(file_);
  EXPECT_THAT(error({"list"}, file_), HasSubstr("it is not a file"));
}

// Names that SQLite would accept: it would store nothing, or create a file of that name.
TEST_F(HistoryFile, RejectsPlacesThatStoreNothing) {
  CommandOptions options;
  options.folder = bench_.path();
  for (const char* place : {":memory:", "file:history.sqlite?mode=memory", "mysql://me:secret@server/runs",
                            "host=server dbname=runs"}) {
    EXPECT_THAT(history({"add", run_folder_}, place, options),
                IsRefused(AllOf(HasSubstr("postgresql://"), testing::Not(HasSubstr("secret")))))
        << place;
    EXPECT_FALSE(fs::exists(bench_.path() / place));
  }
}

// In CI, the messages end up in a log that many people can read.
TEST_F(HistoryFile, NoMessageContainsAPassword) {
  const auto error_of = [](const std::string& place) {
    const std::string said = error({"list"}, place);
    for (const char* piece : {"hun", "ter2"}) EXPECT_THAT(said, testing::Not(HasSubstr(piece))) << place;
    return said;
  };
  const std::string server = "127.0.0.1:1/runs";
  if (error_of("postgresql://" + server).find("cannot use PostgreSQL") != std::string::npos)
    GTEST_SKIP() << "libpq5 is not installed; skipped";
  // URLs that libpq cannot read, or splits in the wrong place.
  for (const std::string& url :
       {"postgresql://me:hun%zzter2@" + server, "postgresql://me:hun/ter2@" + server,
        "postgresql://me:12/hunter2@" + server, "postgresql://me:hun@ter2@" + server,
        "postgresql://me:hun?t/ter2@" + server, std::string("postgresql://me:hunter2"),
        std::string("postgresql://[::1:hunter2"), "postgresql://me%3Ahunter2@" + server,
        "postgresql://" + server + "?password=hun%zzter2", "postgresql://" + server + "?password=hun=ter2",
        "postgresql://" + server + "?password=hun&ter2", "postgresql://" + server + "?PASSWORD=hunter2"})
    EXPECT_THAT(error_of(url), AllOf(HasSubstr("cannot open the history postgresql://…: "),
                                     HasSubstr("percent-encode"), HasSubstr("PGPASSWORD or ~/.pgpass")))
        << url;
  EXPECT_THAT(error_of("postgresql://me@127.0.0.1:99999/runs"),
              AllOf(HasSubstr("its port is greater than 65535"), testing::Not(HasSubstr("percent-encode"))));
  // Valid URLs: the message contains user, host and database.
  for (const std::string& url :
       {"postgresql://me:hunter2@" + server, "postgres://me:hun%2Fter2@" + server,
        "postgresql://me:hun?ter2#@" + server, "postgresql://me@" + server + "?pass%77ord=hunter2",
        "postgresql://me@" + server + "?sslpassword=hun1&password=ter2"})
    EXPECT_THAT(error_of(url), HasSubstr("cannot open the history postgresql://me@127.0.0.1:1/runs: "))
        << url;
  // Names that are not URLs.
  for (const char* place :
       {"host=127.0.0.1 password=hunter2", "password = hunter2", "sslmode=disable\tpassword=hunter2",
        "sslpassword=hunter2", "postgresql:/me:hunter2@host/runs", "postgres:me@host?password=hunter2",
        "me:hunter2@host:5432/runs", "jdbc:postgresql://host/runs?password=hunter2"})
    EXPECT_THAT(error_of(place), HasSubstr("postgresql://user@host/database")) << place;
}

// An earlier version computed the run's key in another way.
TEST_F(HistoryFile, ARunOfAnOlderVersionIsNotComparedWithItself) {
  ASSERT_EQ(history({"add", run_folder_}, file_).exit_code, 0);
  // In the table's row, the key comes before the start time. It is in an index too.
  std::string bytes = read_text(file_);
  constexpr std::size_t kKeySize = 16;
  const std::string started = get_text(bench_.report(), "started_at");
  std::string key;
  for (std::size_t at = bytes.find(started); at != std::string::npos; at = bytes.find(started, at + 1))
    if (const std::string before = bytes.substr(at - kKeySize, kKeySize);
        before.find_first_not_of("0123456789abcdef") == std::string::npos)
      key = before;
  ASSERT_FALSE(key.empty());
  for (std::size_t at = bytes.find(key); at != std::string::npos; at = bytes.find(key, at + 1))
    bytes.replace(at, kKeySize, std::string(kKeySize, '0'));
  write_text(file_, bytes);
  EXPECT_EQ(history({"add", run_folder_}, file_).out, "0 of 1 run added, 1 already existed\n");
  EXPECT_THAT(history({"diff", run_folder_}, file_), IsRefused(HasSubstr("no earlier runs to compare with")));
}

// The stored report is damaged, or was written by a newer Headroom.
TEST_F(HistoryFile, AnUnreadableStoredRunIsOneSentenceWithOneFix) {
  ASSERT_EQ(history({"add", run_folder_, "--commit", "1a2b3c4"}, file_).exit_code, 0);
  const std::string whole = read_text(file_), begin = "{\"schema_version\":1,";
  const std::size_t at = whole.find(begin);
  ASSERT_NE(at, std::string::npos);
  const auto error_of = [&](const std::string& changed) {
    std::string bytes = whole;
    write_text(file_, bytes.replace(at, changed.size(), changed));
    return history({"diff"}, file_).err;
  };
  const std::string damaged = error_of("(\"");
  EXPECT_THAT(damaged, AllOf(HasSubstr("error: run 1 (1a2b3c4) of the history is not valid JSON: "),
                             HasSubstr("; remove it with headroom history remove 1\n")));
  EXPECT_EQ(damaged.find("run 1"), damaged.rfind("run 1")) << damaged;
  EXPECT_THAT(error_of("{\"schema_version\":9,"),
              AllOf(HasSubstr("/schema_version is 9"), HasSubstr("; use a newer Headroom\n")));
}

TEST_F(HistoryFile, ReportsAFullDisk) {
  CommandOptions options;
  options.most_file_bytes = 8192;
  EXPECT_THAT(history({"add", run_folder_}, file_, options),
              IsRefused(AllOf(HasSubstr("disk I/O error"), HasSubstr("`ulimit -f`"))));
  EXPECT_THAT(history({"list"}, file_).err, HasSubstr("no run was added yet"));
  EXPECT_EQ(history({"add", run_folder_}, file_).out, "1 of 1 run added\n");
}

// "Not found" would be wrong: the history may exist.
TEST_F(HistoryFile, AnInaccessibleFileIsNotReportedAsMissing) {
  EXPECT_THAT(error({"list"}, bench_.path() / std::string(300, 'x')),
              AllOf(HasSubstr("cannot open the history"), HasSubstr("File name too long")));
}

}  // namespace
}  // namespace headroom::test
