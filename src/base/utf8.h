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

bool is_valid_utf8(std::string_view text);

// Replaces each invalid byte by U+FFFD, for names from outside sources.
std::string with_valid_utf8(std::string text);

// Appends the character with this code point, up to U+10FFFF.
void append_utf8(std::string& text, std::uint32_t code);

// How many columns a text takes on a terminal, independent of the process's locale.
// East Asian wide characters and emoji take 2 columns, combining marks none, all others 1.
int display_width(std::string_view utf8);

// Shortens the text to `width` columns; a shortened text ends in "…". Control characters become spaces and
// invalid UTF-8 becomes "?", so that a file name cannot control the terminal.
std::string fit_to_width(std::string_view utf8, int width);

// The first `width` columns, cut between characters, without "…". For names that the first characters
// identify, such as commit hashes. Control characters and invalid UTF-8 are replaced as above.
std::string first_columns(std::string_view utf8, int width);

// The whole text, with control characters and invalid UTF-8 replaced as above.
std::string without_control_characters(std::string_view utf8);

// Shortens a path from the front, because its last names say most: "…/layer4/1/conv2". A last name that is
// too long keeps its end.
std::string fit_path_to_width(std::string_view utf8, int width);

// Breaks the text at spaces into lines of at most `width` columns. fit_to_width() cuts a word that is longer
// than a line. Lines after the first start with `indent` spaces, which count as columns.
std::string wrap(std::string_view utf8, int width, int indent);

}  // namespace headroom
