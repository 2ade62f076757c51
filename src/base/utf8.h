// Reads and writes UTF-8, one character at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

struct Utf8Character {
  std::string_view bytes;
  std::uint32_t code = 0;  // for an invalid byte: its value
  bool valid = true;
};

// Removes one character from the front of a non-empty text and returns it. An invalid byte counts as one
// character.
Utf8Character take_utf8(std::string_view& text);

// Replaces each invalid byte by U+FFFD, for names from outside sources.
std::string with_valid_utf8(std::string text);

// Appends the character with this code point, up to U+10FFFF.
void append_utf8(std::string& text, std::uint32_t code);

}  // namespace headroom
