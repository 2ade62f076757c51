#include "base/text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headroom {
namespace {

TEST(Text, SplitKeepsEmptyFieldsAndSplitWordsDropsThem) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split_words("  a \t b\n"), (std::vector<std::string_view>{"a", "b"}));
}

TEST(Text, NaturalOrderComparesDigitsAsNumbers) {
  std::vector<std::string> names{"frame10.jpg", "frame2.jpg", "frame02.jpg", "Frame1.jpg", "frame.jpg"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names, (std::vector<std::string>{"Frame1.jpg", "frame.jpg", "frame02.jpg", "frame2.jpg",
                                             "frame10.jpg"}));
}

TEST(Text, NaturalOrderIsStrictAndTotal) {
  const std::vector<std::string> names{"", "0", "00", "1", "a1b2", "a01b2", "a1b10", "a", "a1"};
  for (const auto& a : names)
    for (const auto& b : names) EXPECT_FALSE(natural_less(a, b) && natural_less(b, a)) << a << " " << b;
}

TEST(Text, ClosestMatchFindsOnlyTypingErrors) {
  const std::vector<std::string> flags{"max-frames", "mem-limit", "model"};
  EXPECT_EQ(closest_match("max-frmes", flags), "max-frames");
  EXPECT_EQ(closest_match("completely-different", flags), "");
}

TEST(Text, QuotesWordsForAShell) {
  EXPECT_EQ(shell_word("a/b-c_d.onnx"), "a/b-c_d.onnx");
  EXPECT_EQ(shell_word("my net=a.onnx"), "'my net=a.onnx'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a\033[2J"), "$'a\\x1b[2J'") << "nothing steers the terminal";
  EXPECT_EQ(shell_command({"headroom", "bench", "--model", "my net=x.onnx", "--strict"}),
            "headroom bench --model 'my net=x.onnx' --strict");
}

TEST(Text, ParseNumberNeedsTheWholeText) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_FALSE(parse_number<int>("42x"));
  EXPECT_FALSE(parse_number<int>(""));
}

}  // namespace
}  // namespace headroom
