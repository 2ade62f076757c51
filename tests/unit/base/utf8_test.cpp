#include "base/utf8.h"

#include "support/test_support.h"

namespace headroom {
namespace {

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

TEST(Utf8, ReadsBackAppendedCharacters) {
  for (const std::uint32_t code : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, code);
    std::string_view rest = text;
    const Utf8Character character = take_utf8(rest);
    EXPECT_TRUE(character.valid && rest.empty()) << code;
    EXPECT_EQ(character.code, code);
  }
}

}  // namespace
}  // namespace headroom
