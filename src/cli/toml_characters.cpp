#include "cli/toml_characters.h"

#include <cstddef>
#include <cstdint>

namespace headroom::cli {
namespace {

constexpr std::uint32_t kDistance = 0x100000;

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// The character at the start of `text`; a byte that begins no well-formed one counts as itself.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (bytes == 1 || text.size() < bytes) return {lead, 1};
  std::uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {lead, 1};
    code = code << 6 | (next & 0x3F);
  }
  return {code, bytes};
}

bool may_stand_in(std::uint32_t code) {
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= 0x80 && code <= 0xFFFF && !is_surrogate;
}

void append(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace

std::string with_stand_ins(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.bytes > 1 && may_stand_in(character.code))
      append(result, character.code + kDistance);
    else
      result += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return result;
}

std::string without_stand_ins(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.bytes == 4 && character.code >= kDistance && may_stand_in(character.code - kDistance))
      append(result, character.code - kDistance);
    else
      result += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return result;
}

}  // namespace headroom::cli
