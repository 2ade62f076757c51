#include "doctor/log/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <map>

#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::AnchorSearch;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Lines = std::vector<std::pair<std::int64_t, std::string>>;

class LogReader : public testing::Test {
 protected:
  // The lines with NEEDLE in a file with this text, and `more` lines after each.
  Lines lines_of(const std::string& text, int more = 0) {
    write_text(folder_ / "a.log", text);
    return lines_of_file("a.log", more);
  }
  Lines lines_of_file(const std::string& name, int more = 0) {
    Lines lines;
    int wanted = 0;
    const AnchorSearch search({"NEEDLE"});
    status_ = doctor::read_log_file((folder_ / name).string(), search,
                                    [&](std::int64_t number, std::string_view line) {
                                      lines.emplace_back(number, line);
                                      wanted = line.find("NEEDLE") != line.npos ? more : wanted - 1;
                                      return wanted > 0;
                                    });
    return lines;
  }
  void gzip(const std::string& name, const std::string& text) {
    gzFile file = gzopen((folder_ / name).c_str(), "wb");
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    gzclose(file);
  }
  TemporaryFolder folder_;
  Result<std::int64_t> status_ = 0;
};

TEST_F(LogReader, ReturnsLinesWithNumbers) {
  EXPECT_THAT(lines_of("a\nNEEDLE 1\r\n\nx NEEDLE 2 NEEDLE\nb\nlast NEEDLE"),
              ElementsAre(Pair(2, "NEEDLE 1"), Pair(4, "x NEEDLE 2 NEEDLE"), Pair(6, "last NEEDLE")));
  EXPECT_TRUE(lines_of("").empty());
  EXPECT_TRUE(lines_of("\n\n\n").empty());
  EXPECT_TRUE(lines_of("NEEDL\nE\n").empty());
}

TEST_F(LogReader, RejectsDecompressionBombs) {
  gzip("member", std::string(4 << 20, '\0'));
  const std::string member = read_text(folder_ / "member");
  gzip("a.gz", "NEEDLE\n");
  std::string bomb = read_text(folder_ / "a.gz");
  for (int i = 0; i < 130; ++i) bomb += member;  // 520 MiB
  write_text(folder_ / "a.gz", bomb);
  EXPECT_THAT(lines_of_file("a.gz"), ElementsAre(Pair(1, "NEEDLE"))) << "what was before is kept";
  ASSERT_FALSE(status_);
  EXPECT_THAT(status_.error().sentence(),
              AllOf(HasSubstr("it unpacks to more than 100 times its size"), HasSubstr("zcat ")));
}

TEST_F(LogReader, RejectsDevicesAndReadsAFifoWithoutAWriter) {
  EXPECT_FALSE(doctor::read_log_file("/dev/zero", AnchorSearch({"NEEDLE"}),
                                     [](std::int64_t, std::string_view) { return false; }));
  EXPECT_FALSE(doctor::read_log_file("/proc/self/pagemap", AnchorSearch({"NEEDLE"}),
                                     [](std::int64_t, std::string_view) { return false; }));
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(lines_of_file("fifo"), IsEmpty());
  EXPECT_EQ(status_, 0);
}

TEST_F(LogReader, ReturnsFollowingLinesOnRequest) {
  EXPECT_THAT(lines_of("NEEDLE\na\nb\nc\nd\n", 2),
              ElementsAre(Pair(1, "NEEDLE"), Pair(2, "a"), Pair(3, "b")));
  EXPECT_THAT(lines_of("NEEDLE\na\nNEEDLE\nb\n", 2),
              ElementsAre(Pair(1, "NEEDLE"), Pair(2, "a"), Pair(3, "NEEDLE"), Pair(4, "b")));
}

// Larger than the buffer, so that some lines cross its end.
TEST_F(LogReader, JoinsLinesAcrossBufferEnd) {
  std::string text;
  for (int i = 1; i <= 100'000; ++i)
    text += fmt::format("{} {}{}\n", i, i % 1000 == 0 ? "NEEDLE " : "", std::string(i % 90, '.'));
  const Lines lines = lines_of(text, 2);
  ASSERT_EQ(lines.size(), 298U);  // no line follows the last
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_THAT(lines[i].second, testing::StartsWith(fmt::format("{} ", lines[i].first)));
  EXPECT_EQ(lines[297].first, 100'000);
}

TEST_F(LogReader, ReturnsEachMatchingPartOfLongLine) {
  std::string text(3'500'000, 'x');
  for (const std::size_t at : {100U, 25'000U, 3'000'000U}) text.replace(at, 6, "NEEDLE");
  const Lines lines = lines_of(text + "\nNEEDLE\n");
  ASSERT_EQ(lines.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i].first, 1);
    EXPECT_LE(lines[i].second.size(), doctor::kLongestLogLine);
    EXPECT_THAT(lines[i].second, HasSubstr("NEEDLE")) << i;
  }
  EXPECT_EQ(lines[3], (std::pair<std::int64_t, std::string>{2, "NEEDLE"}));
}

// Long and short lines in turn: each part contains text of one line only, and has the line's number.
TEST_F(LogReader, PartsOfLongLineContainNoOtherLine) {
  std::string text;
  for (int i = 1; i <= 60; ++i) {
    const bool is_long = i % 3 == 0;
    for (int part = 0; part < (is_long ? 40 : 1); ++part)
      text += fmt::format("{}{}-{} NEEDLE ", std::string(is_long ? 900 : 3, '.'), i, part);
    text += i % 4 == 0 ? "\n\n" : "\n";
  }
  std::int64_t line = 1;
  std::map<std::int64_t, int> expected;  // line number to the first number in the line
  for (int i = 1; i <= 60; ++i, line += i % 4 == 1 ? 2 : 1) expected[line] = i;
  for (const int more : {0, 1}) {
    std::map<std::int64_t, int> parts;
    for (const auto& [at, given] : lines_of(text, more)) {
      if (given.empty()) continue;
      ++parts[at];
      const std::string name = fmt::format("{}-", expected[at]);
      EXPECT_THAT(given, HasSubstr(" NEEDLE")) << at;
      EXPECT_THAT(given, HasSubstr(name)) << at;
      const bool is_whole = given == fmt::format("...{}0 NEEDLE ", name);
      EXPECT_EQ(is_whole, expected[at] % 3 != 0) << given;
    }
    EXPECT_EQ(parts.size(), 60U);
    for (const auto& [at, count] : parts) EXPECT_EQ(count > 1, expected[at] % 3 == 0) << at;
  }
}

TEST_F(LogReader, ReadsGzip) {
  gzip("a.gz", "a\nb\nNEEDLE\n");
  EXPECT_THAT(lines_of_file("a.gz"), ElementsAre(Pair(3, "NEEDLE")));
  EXPECT_TRUE(status_.has_value());
}

TEST_F(LogReader, TruncatedGzipReturnsLinesAndError) {
  std::string text = "NEEDLE\n";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("{}\n", i * 7919 % 100'003);
  gzip("a.gz", text);
  std::filesystem::resize_file(folder_ / "a.gz", std::filesystem::file_size(folder_ / "a.gz") / 2);
  EXPECT_THAT(lines_of_file("a.gz"), ElementsAre(Pair(1, "NEEDLE")));
  ASSERT_FALSE(status_.has_value());
  EXPECT_THAT(status_.error().sentence(), HasSubstr("its gzip stream is damaged or truncated"));
}

TEST_F(LogReader, ReportsUnreadableFile) {
  lines_of_file("absent.log");
  EXPECT_THAT(status_.error().sentence(),
              testing::AllOf(HasSubstr("absent.log: No such file"), HasSubstr("check the path")));
  std::filesystem::create_directory(folder_ / "folder");
  lines_of_file("folder");
  EXPECT_THAT(status_.error().sentence(), HasSubstr("is a folder"));
  // The path is correct, but the permissions are missing.
  constexpr unsigned kNobody = 65534;
  write_text(folder_ / "mine.log", "NEEDLE\n");
  std::filesystem::permissions(folder_ / "mine.log", std::filesystem::perms::none);
  const int before = setfsuid(kNobody);  // root may read all
  lines_of_file("mine.log");
  setfsuid(static_cast<unsigned>(before));
  ASSERT_FALSE(status_.has_value());
  EXPECT_THAT(status_.error().sentence(), HasSubstr("Permission denied; check the file's permissions"));
}

}  // namespace
}  // namespace headroom::test
