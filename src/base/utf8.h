// UTF-8, a character at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

struct Utf8Character {
  std::string_view bytes;
  std::uint32_t code = 0;  // of an invalid byte: the byte
  bool valid = true;
};

// Takes one character off the front of a text that is not empty; an invalid byte is a character of its own.
Utf8Character take_utf8(std::string_view& text);

// The text with U+FFFD for each byte that is part of no character: for names that come from elsewhere.
std::string with_valid_utf8(std::string text);

// Appends the character of this code, up to U+10FFFF.
void append_utf8(std::string& text, std::uint32_t code);

}  // namespace headroom
