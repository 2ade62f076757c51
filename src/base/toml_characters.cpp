#include "base/toml_characters.h"

#include <cstdint>

#include "base/utf8.h"

namespace headroom {
namespace {

constexpr std::uint32_t kDistance = 0x100000;

bool may_stand_in(std::uint32_t code) {
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= 0x80 && code <= 0xFFFF && !is_surrogate;
}

}  // namespace

std::string with_stand_ins(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = take_utf8(text);
    if (character.valid && may_stand_in(character.code))
      append_utf8(result, character.code + kDistance);
    else
      result += character.bytes;
  }
  return result;
}

std::string without_stand_ins(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = take_utf8(text);
    if (character.valid && character.code >= kDistance && may_stand_in(character.code - kDistance))
      append_utf8(result, character.code - kDistance);
    else
      result += character.bytes;
  }
  return result;
}

}  // namespace headroom
