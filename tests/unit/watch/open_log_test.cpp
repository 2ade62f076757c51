#include "watch/open_log.h"

#include <sys/stat.h>

#include "support/test_support.h"
#include "watch/log_file.h"

namespace headroom::watch {
namespace {
using testing::HasSubstr;

std::string text_of(const UniqueFd& fd) {
  std::string text;
  char piece[4096];
  for (ssize_t got; (got = ::read(fd.get(), piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(got));
  return text;
}

TEST(OpenLog, ReadsPlainAndCompressedLogs) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a.jsonl", "{}\n{}\n");
  test::write_text(folder / "a.jsonl.gz", gzip("{}\n") + gzip("{}\n"));
  for (const char* name : {"a.jsonl", "a.jsonl.gz"}) {
    const auto log = open_log(folder / name, "");
    ASSERT_TRUE(log) << log.error().sentence();
    EXPECT_FALSE(log->is_damaged);
    EXPECT_EQ(text_of(log->file), "{}\n{}\n") << name;
  }
  EXPECT_THAT(open_log(folder / "none", "look for it").error().sentence(), HasSubstr("look for it"));
}

TEST(OpenLog, ReportsDataAfterACompressedLogAsDamage) {
  test::TemporaryFolder folder;
  for (const std::string& behind : {std::string("garbage"), std::string(512, '\0')}) {
    test::write_text(folder / "a.jsonl.gz", gzip("{}\n") + behind);
    const auto log = open_log(folder / "a.jsonl.gz", "");
    ASSERT_TRUE(log) << log.error().sentence();
    EXPECT_TRUE(log->is_damaged) << behind;
    EXPECT_EQ(text_of(log->file), "{}\n");
  }
}

// A small file may unpack to any size.
TEST(OpenLog, RejectsLogsThatUnpackBeyondTheLimit) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a.jsonl.gz", gzip(std::string(10'000'000, '\n')));
  const auto most = open_log(folder / "a.jsonl.gz", "", Bytes{10'000'000});
  EXPECT_TRUE(most) << most.error().sentence();
  const auto more = open_log(folder / "a.jsonl.gz", "", Bytes{9'999'999});
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().sentence(), HasSubstr("it unpacks to more than"));
  EXPECT_THAT(more.error().sentence(), HasSubstr("gunzip --keep"));
}

}  // namespace
}  // namespace headroom::watch
