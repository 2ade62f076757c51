#include <gtest/gtest.h>
#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "support/test_support.h"

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

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("yolo"), 4);
  EXPECT_EQ(display_width("Größe"), 5);
  EXPECT_EQ(display_width("e\xcc\x81"), 1);  // e and a combining acute accent
  EXPECT_EQ(display_width("模型"), 4);
  EXPECT_EQ(display_width("🚀"), 2);
  EXPECT_EQ(display_width("✅"), 2);
  EXPECT_EQ(display_width("\xff\xfe"), 2);  // invalid bytes take one each
}

TEST(FitToWidth, CutsBetweenCharactersAndMarksTheCut) {
  EXPECT_EQ(fit_to_width("yolox_nano_1280", 20), "yolox_nano_1280");
  EXPECT_EQ(fit_to_width("yolox_nano_1280", 15), "yolox_nano_1280");
  EXPECT_EQ(fit_to_width("yolox_nano_1280", 10), "yolox_nan…");
  EXPECT_EQ(fit_to_width("模型模型", 5), "模型…");
  EXPECT_EQ(fit_to_width("模型模型", 4), "模…");  // half a character does not fit
  EXPECT_EQ(fit_to_width("abc", 1), "…");
  EXPECT_EQ(fit_to_width("abc", 0), "");
}

TEST(FitToWidth, KeepsTheLastNamesOfAPath) {
  EXPECT_EQ(fit_path_to_width("ResNet/layer4/1/conv2", 21), "ResNet/layer4/1/conv2");
  EXPECT_EQ(fit_path_to_width("ResNet/layer4/1/conv2", 20), "…/layer4/1/conv2");
  EXPECT_EQ(fit_path_to_width("ResNet/layer4/1/conv2", 9), "…/1/conv2");
  EXPECT_EQ(fit_path_to_width("ResNet/layer4/1/conv2", 8), "…/conv2");
  EXPECT_EQ(fit_path_to_width("ResNet/layer4/1/conv2", 7), "…/conv2");
  EXPECT_EQ(fit_path_to_width("ResNet/layer4/1/conv2", 5), "…onv2") << "not even the last one fits";
  EXPECT_EQ(fit_path_to_width("ResNet/conv2", 1), "…");
  EXPECT_EQ(fit_path_to_width("ResNet/conv2", 0), "");
  EXPECT_EQ(fit_path_to_width("model/a\033[1m", 9), "…/a [1m");
  EXPECT_EQ(fit_path_to_width("(outside of any layer)", 10), "(outside …");
}

TEST(FitToWidth, ReplacesControlCharacters) {
  EXPECT_EQ(fit_to_width("a\033[31mb\nc", 20), "a [31mb c");
  EXPECT_EQ(fit_to_width("a\xc2\x9b"
                         "b",
                         20),
            "a?b");  // C1 control CSI
  EXPECT_EQ(fit_to_width("caf\xe9", 20), "caf?");
  EXPECT_EQ(fit_to_width("\xe6\xa8", 20), "??");  // cut inside a character
}

TEST(Wrap, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(wrap("one two three", 80, 2), "one two three");
  EXPECT_EQ(wrap("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrap("one  two", 3, 0), "one\ntwo");
  EXPECT_EQ(wrap("incomprehensibly long", 8, 2), "incompr…\n  long");
}

TEST(DisplayWidth, FirstColumnsEndBetweenCharacters) {
  EXPECT_EQ(first_columns("größe", 4), "größ");
  EXPECT_EQ(first_columns("größe", 3), "grö");
  EXPECT_EQ(first_columns("日本語", 5), "日本");
  EXPECT_EQ(first_columns("ab\033c", 10), "ab c");
  EXPECT_EQ(first_columns("", 3), "");
  EXPECT_EQ(without_control_characters("a\033[31m\xff"), "a [31m?");
}

TEST(Utf8, ReadsCharactersAndSingleInvalidBytes) {
  std::string_view text = "aö€😀\xC3z";
  std::vector<std::uint32_t> codes;
  std::vector<bool> valid;
  while (!text.empty()) {
    const Utf8Character character = take_utf8(text);
    codes.push_back(character.code);
    valid.push_back(character.valid);
  }
  EXPECT_THAT(codes, testing::ElementsAre(0x61u, 0xF6u, 0x20ACu, 0x1F600u, 0xC3u, 0x7Au));
  EXPECT_THAT(valid, testing::ElementsAre(true, true, true, true, false, true));
}

TEST(Utf8, ReplacesInvalidBytes) {
  EXPECT_EQ(with_valid_utf8("größe"), "größe");
  EXPECT_EQ(with_valid_utf8("a\xC3"), "a\uFFFD") << "cut off";
  EXPECT_EQ(with_valid_utf8("\xE0\x80\xAFx"), "\uFFFD\uFFFD\uFFFDx") << "longer than needed";
  EXPECT_EQ(with_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD") << "half of a pair";
  EXPECT_EQ(with_valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD") << "beyond the last";
}

}  // namespace

}  // namespace headroom
