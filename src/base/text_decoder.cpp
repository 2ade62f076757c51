#include "base/text_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace headroom {

std::size_t TextDecoder::decode(char* data, std::size_t size) {
  std::string_view rest(data, size);
  if (kind_ == Kind::unknown && size > 0) {
    const bool is_little = rest.starts_with("\xff\xfe"), is_big = rest.starts_with("\xfe\xff");
    kind_ = is_little ? Kind::little_endian : is_big ? Kind::big_endian : Kind::plain;
    if (is_little || is_big) rest.remove_prefix(2);
    if (rest.starts_with("\xef\xbb\xbf")) {
      std::memmove(data, data + 3, size - 3);
      return size - 3;
    }
  }
  if (kind_ == Kind::plain) return size;
  std::string text;
  for (const unsigned char byte : rest) {
    if (first_byte_ < 0) {
      first_byte_ = byte;
      continue;
    }
    const auto first = static_cast<std::uint32_t>(first_byte_);
    const std::uint32_t unit = kind_ == Kind::little_endian ? first | byte << 8U : first << 8U | byte;
    first_byte_ = -1;
    constexpr std::uint32_t kReplacement = 0xfffd;
    const bool is_high = unit >= 0xd800 && unit < 0xdc00, is_low = unit >= 0xdc00 && unit < 0xe000;
    if (high_surrogate_ != 0 && !is_low) append_utf8(text, kReplacement);
    if (is_low)
      append_utf8(text, high_surrogate_ == 0
                            ? kReplacement
                            : 0x10000 + ((high_surrogate_ - 0xd800) << 10U) + (unit - 0xdc00));
    else if (!is_high)
      append_utf8(text, unit);
    high_surrogate_ = is_high ? unit : 0;
  }
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace headroom
