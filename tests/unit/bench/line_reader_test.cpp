#include "bench/line_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/subprocess.h"

namespace headroom::bench {
namespace {

TEST(LineReader, JoinsPiecesAndKeepsALastLineWithoutNewline) {
  auto pipe = Pipe::create();
  LineReader reader(std::move(pipe->read_end));
  std::vector<std::string> lines;
  const auto collect = [&](std::string_view line) { lines.emplace_back(line); };
  ASSERT_TRUE(write_all(pipe->write_end.get(), "one\ntw"));
  reader.read_available(collect);
  EXPECT_EQ(lines, (std::vector<std::string>{"one"}));
  ASSERT_TRUE(write_all(pipe->write_end.get(), "o\n\nlast"));
  pipe->write_end.reset();
  reader.read_available(collect);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "", "last"}));
  EXPECT_FALSE(reader.open());
}

}  // namespace
}  // namespace headroom::bench
