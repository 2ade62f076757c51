#include "watch/line_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom::watch {
namespace {
using testing::ElementsAre;

std::vector<std::string> lines_of(const std::string& text) {
  test::TemporaryFolder folder;
  test::write_text(folder / "text", text);
  const UniqueFd fd(::open((folder / "text").c_str(), O_RDONLY));
  std::vector<std::string> lines;
  LinePump pump(fd.get());
  for (;;) {
    const auto more = pump.read_some([&](std::string_view line) { lines.emplace_back(line); });
    if (!more || !*more) return lines;
  }
}

TEST(LinePump, ReadsALastLineWithoutNewline) {
  EXPECT_THAT(lines_of("a\n\nb\nlast"), ElementsAre("a", "", "b", "last"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
}

// Lines of all lengths around the buffer size, which lie across two reads.
TEST(LinePump, LosesNothingBetweenReads) {
  std::string text;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 3000; ++i) {
    expected.push_back(std::string((i * 7919) % 1500, static_cast<char>('a' + i % 26)));
    text += expected.back() + "\n";
  }
  EXPECT_EQ(lines_of(text), expected);
}

TEST(LinePump, SplitsALineThatIsTooLong) {
  const std::size_t most = LinePump::kLongestLine;
  const auto lines = lines_of(std::string(10 * most + 5, 'x') + "\nnext\n");
  ASSERT_EQ(lines.size(), 12U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(lines[i].size(), most);
  EXPECT_EQ(lines[10].size(), 5U);
  EXPECT_EQ(lines[11], "next");
}

TEST(LinePump, LongestLineIsConfigurable) {
  test::TemporaryFolder folder;
  const std::string line(LinePump::kLongestLine + 1, 'x');
  test::write_text(folder / "text", line + "\n");
  const UniqueFd fd(::open((folder / "text").c_str(), O_RDONLY));
  std::vector<std::string> lines;
  LinePump pump(fd.get(), 2 * LinePump::kLongestLine);
  while (pump.read_some([&](std::string_view each) { lines.emplace_back(each); }).value_or(false)) {
  }
  EXPECT_THAT(lines, ElementsAre(line));
}

TEST(LinePump, HandlesAnEmptyPipe) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  LinePump pump(pipe->read_end.get());
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  EXPECT_TRUE(pump.read_some(keep).value_or(false));
  ASSERT_TRUE(write_all(pipe->write_end.get(), "half"));
  EXPECT_TRUE(pump.read_some(keep).value_or(false));
  EXPECT_TRUE(lines.empty());
  ASSERT_TRUE(write_all(pipe->write_end.get(), " and half\n"));
  EXPECT_TRUE(pump.read_some(keep).value_or(false));
  EXPECT_THAT(lines, ElementsAre("half and half"));
}

}  // namespace
}  // namespace headroom::watch
