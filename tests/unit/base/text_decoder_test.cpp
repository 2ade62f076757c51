#include "base/text_decoder.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "support/test_support.h"

namespace headroom::test {
namespace {

using namespace std::string_literals;

// Decodes the text in pieces of this size.
std::string decoded(std::string_view text, std::size_t piece) {
  TextDecoder decoder;
  std::string whole;
  while (!text.empty()) {
    std::string buffer(text.substr(0, piece));
    const std::size_t size = buffer.size();
    text.remove_prefix(size);
    buffer.resize(size * 3 / 2 + 3);
    buffer.resize(decoder.decode(buffer.data(), size));
    whole += buffer;
  }
  return whole;
}

TEST(TextDecoder, DecodesUtf16InBothByteOrders) {
  const std::string little = "\xff\xfe"s + "a\0"s + "\n\0"s + "\xe9\0"s + "\x3d\xd8\x00\xde"s,
                    big = "\xfe\xff"s + "\0a"s + "\0\n"s + "\0\xe9"s + "\xd8\x3d\xde\x00"s;
  for (const std::size_t piece : {2, 3, 5, 100}) {
    EXPECT_EQ(decoded(little, piece), "a\né😀") << piece;
    EXPECT_EQ(decoded(big, piece), "a\né😀") << piece;
  }
}

TEST(TextDecoder, ReplacesSurrogatesWithoutAPartner) {
  EXPECT_EQ(decoded("\xff\xfe\x3d\xd8"s + "a\0"s, 100),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(decoded("\xff\xfe\x00\xde"s, 100), "\xef\xbf\xbd");
  EXPECT_EQ(decoded("\xff\xfe"s + "a\0b"s, 100), "a");  // cut within a character
}

TEST(TextDecoder, KeepsOtherText) {
  EXPECT_EQ(decoded("\xef\xbb\xbftime;é", 100), "time;é");
  for (const std::string text : {"plain é\n", "\xff\n", "", "\x1f\x8b\x08"})
    EXPECT_EQ(decoded(text, 1), text);
}

TEST(TextDecoder, LeavesRoomForUtf8) {
  TextDecoder decoder;
  EXPECT_EQ(decoder.most(9), 6U);
  std::string text = "plain";
  decoder.decode(text.data(), text.size());
  EXPECT_EQ(decoder.most(9), 9U);
}

}  // namespace
}  // namespace headroom::test
