#include <sys/stat.h>

#include "support/test_support.h"
#include "watch/log_reader.h"
#include "watch/sample_log.h"

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
  const std::string packed = gzip("{}\n") + gzip("{}\n");
  const struct {
    std::string content;
    bool is_damaged;
  } cases[] = {{"{}\n{}\n", false},
               {packed, false},
               {packed + std::string(512, '\0'), false},  // padding
               {packed + "garbage", true}};
  for (const auto& each : cases) {
    test::write_text(folder / "a", each.content);
    const auto log = open_log(folder / "a", "");
    ASSERT_TRUE(log) << log.error().sentence();
    EXPECT_EQ(log->is_damaged, each.is_damaged);
    EXPECT_EQ(text_of(log->file), "{}\n{}\n");
  }
  EXPECT_THAT(open_log(folder / "none", "look for it").error().sentence(), HasSubstr("look for it"));
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

using testing::AllOf;

TEST(ReplayLog, ReadsAnySample) {
  test::TemporaryFolder folder;
  test::write_text(
      folder / "a.jsonl",
      "{\"time_ns\":1,\"cpu_percent\":5}\n\n{\"time_ns\":2,\"cpu_percent\":6}\n{\"time_ns\":3,\"cpu");
  const auto log = ReplayLog::open(folder / "a.jsonl");
  ASSERT_TRUE(log) << log.error().sentence();
  ASSERT_EQ(log->size(), 2U);  // the last line was cut
  EXPECT_EQ(log->read(1)->cpu_percent, 6);
  EXPECT_EQ(log->read(0)->time, Nanoseconds{1});
  // Longer than one read.
  const std::string blank_lines(20'000, '\n'), text(300'000, 'a');
  test::write_text(folder / "b.jsonl", blank_lines + "{\"time_ns\":1,\"later\":\"" + text +
                                           "\"}\n{\"time_ns\":2}\n[]\n{\"time_ns\":4}\n");
  const auto long_lines = ReplayLog::open(folder / "b.jsonl");
  ASSERT_TRUE(long_lines) << long_lines.error().sentence();
  ASSERT_EQ(long_lines->size(), 4U);
  EXPECT_EQ(long_lines->read(3)->time, Nanoseconds{4});
  EXPECT_EQ(long_lines->read(0)->time, Nanoseconds{1});
  EXPECT_THAT(long_lines->read(2).error().sentence(), HasSubstr("line 20003 of"));
}

// The format of headroom watch: concatenated gzip members. A kill cut off the last one.
TEST(ReplayLog, ReadsACompressedLog) {
  test::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "{\"time_ns\":" + std::to_string(100 + i) + "}\n";
  const std::string cut = watch::gzip(lines);
  test::write_text(folder / "a.jsonl.gz", watch::gzip("{\"time_ns\":1}\n{\"time_ns\":2}\n") +
                                              watch::gzip("{\"time_ns\":3}\n") +
                                              cut.substr(0, cut.size() / 2));
  const auto log = ReplayLog::open(folder / "a.jsonl.gz");
  ASSERT_TRUE(log) << log.error().sentence();
  ASSERT_GE(log->size(), 3U);
  EXPECT_LT(log->size(), 1003U);
  EXPECT_EQ(log->read(2)->time, Nanoseconds{3});
  for (std::size_t i = 0; i < log->size(); ++i) EXPECT_TRUE(log->read(i)) << i;
}

// Damage by a flash card.
TEST(ReplayLog, KeepsSamplesBeforeDamage) {
  test::TemporaryFolder folder;
  const auto member = [](int from) {
    std::string lines;
    for (int i = from; i < from + 10; ++i) lines += "{\"time_ns\":" + std::to_string(i) + "}\n";
    return watch::gzip(lines);
  };
  std::string text;
  for (int i = 0; i < 5; ++i) text += member(10 * i);
  std::string bad = member(50);
  bad[3] = '\x7f';  // invalid gzip flags
  test::write_text(folder / "a.jsonl.gz", text + bad + member(60));
  ::testing::internal::CaptureStderr();
  const auto log = ReplayLog::open(folder / "a.jsonl.gz");
  const std::string output = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(log) << log.error().sentence();
  EXPECT_EQ(log->size(), 50U);
  EXPECT_EQ(log->read(49)->time, Nanoseconds{49});
  EXPECT_THAT(output, HasSubstr("is damaged after 50 samples"));
  // Damage inside a gzip member: the lines before it are complete.
  std::string middle = watch::gzip(std::string(100'000, '\n') + "{\"time_ns\":7}\n");
  middle[middle.size() - 6] ^= 0x55;  // its checksum
  test::write_text(folder / "b.jsonl.gz", member(0) + middle + member(10));
  const auto other = ReplayLog::open(folder / "b.jsonl.gz");
  ASSERT_TRUE(other) << other.error().sentence();
  EXPECT_GE(other->size(), 10U);
  test::write_text(folder / "c.jsonl.gz", bad);
  EXPECT_THAT(ReplayLog::open(folder / "c.jsonl.gz").error().sentence(), HasSubstr("it is damaged"));
}

TEST(ReplayLog, RejectsFilesThatAreNotLogs) {
  test::TemporaryFolder folder;
  EXPECT_FALSE(ReplayLog::open(folder / "none"));
  EXPECT_THAT(ReplayLog::open(folder.path()).error().sentence(), HasSubstr("not a regular file"));
  ::mkfifo((folder / "fifo").c_str(), 0600);
  EXPECT_THAT(ReplayLog::open(folder / "fifo").error().sentence(), HasSubstr("not a regular file"));
  test::write_text(folder / "empty", "\n");
  EXPECT_THAT(ReplayLog::open(folder / "empty").error().sentence(), HasSubstr("no sample"));
  test::write_text(folder / "text", "hello\nworld\n");
  EXPECT_THAT(
      ReplayLog::open(folder / "text").error().sentence(),
      AllOf(HasSubstr("line 1"), HasSubstr("; pass a log written by headroom watch --output FILE.jsonl")));
  test::write_text(folder / "gzip", "\x1f\x8b\x08");
  EXPECT_THAT(ReplayLog::open(folder / "gzip").error().sentence(), HasSubstr("no sample"));
}

}  // namespace

}  // namespace headroom::watch
