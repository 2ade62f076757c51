#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/text.h"

namespace headroom {

Utf8Character take_utf8(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  Utf8Character character;
  character.valid = length > 0 && length <= text.size() && lead < 0xF5;
  character.code = length < 2 ? lead : lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; character.valid && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    character.valid = (next & 0xC0u) == 0x80;
    character.code = character.code << 6 | (next & 0x3Fu);
  }
  // Reject overlong encodings and UTF-16 surrogates.
  const bool is_surrogate = character.code >= 0xD800 && character.code < 0xE000;
  if ((length == 3 && (character.code < 0x800 || is_surrogate)) ||
      (length == 4 && (character.code < 0x10000 || character.code > 0x10FFFF)))
    character.valid = false;
  if (!character.valid) character.code = lead;
  character.bytes = text.substr(0, character.valid ? length : 1);
  text.remove_prefix(character.bytes.size());
  return character;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
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

bool is_valid_utf8(std::string_view text) {
  while (!text.empty())
    if (!take_utf8(text).valid) return false;
  return true;
}

std::string with_valid_utf8(std::string text) {
  // Most names and lines are ASCII. Checking a vector of bytes at a time takes a tenth of the time.
  unsigned char all_bits = 0;
  for (const char byte : text) all_bits |= static_cast<unsigned char>(byte);
  if (all_bits < 0x80) return text;
  std::string_view rest = text;
  bool is_valid = true;
  while (is_valid && !rest.empty()) is_valid = take_utf8(rest).valid;
  if (is_valid) return text;
  constexpr std::uint32_t kReplacement = 0xFFFD;
  std::string clean;
  for (rest = text; !rest.empty();) {
    const Utf8Character character = take_utf8(rest);
    if (character.valid)
      clean += character.bytes;
    else
      append_utf8(clean, kReplacement);
  }
  return clean;
}

namespace {

struct Range {
  std::uint32_t first, last;
};

// Zero columns: the blocks of combining marks, zero-width characters and variation selectors.
constexpr std::array kZeroWidth{Range{0x0300, 0x036F}, Range{0x0483, 0x0489},  Range{0x0591, 0x05BD},
                                Range{0x064B, 0x065F}, Range{0x1AB0, 0x1AFF},  Range{0x1DC0, 0x1DFF},
                                Range{0x200B, 0x200F}, Range{0x202A, 0x202E},  Range{0x2060, 0x2064},
                                Range{0x20D0, 0x20FF}, Range{0xFE00, 0xFE0F},  Range{0xFE20, 0xFE2F},
                                Range{0xFEFF, 0xFEFF}, Range{0xE0100, 0xE01EF}};
// Two columns: Unicode's East Asian Width W and F, by block.
constexpr std::array kWide{
    Range{0x1100, 0x115F},   Range{0x231A, 0x231B},   Range{0x23E9, 0x23EC},   Range{0x25FD, 0x25FE},
    Range{0x2614, 0x2615},   Range{0x2648, 0x2653},   Range{0x26A1, 0x26A1},   Range{0x26BD, 0x26BE},
    Range{0x2705, 0x2705},   Range{0x274C, 0x274C},   Range{0x2753, 0x2755},   Range{0x2795, 0x2797},
    Range{0x2B1B, 0x2B1C},   Range{0x2B50, 0x2B50},   Range{0x2E80, 0x303E},   Range{0x3041, 0x33FF},
    Range{0x3400, 0x4DBF},   Range{0x4E00, 0x9FFF},   Range{0xA000, 0xA4CF},   Range{0xA960, 0xA97F},
    Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},
    Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF},
    Range{0x1FA70, 0x1FAFF}, Range{0x20000, 0x3FFFD}};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, std::uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return code >= range.first && code <= range.last; });
}

struct Character {
  std::string_view bytes;
  int width = 1;
  bool printable = true;
};

// Takes one character off the front; an invalid byte is not printable.
Character take_character(std::string_view& text) {
  const Utf8Character next = take_utf8(text);
  const std::uint32_t code = next.code;
  Character character{next.bytes};
  character.printable = next.valid && code >= 0x20 && code != 0x7F && !(code >= 0x80 && code < 0xA0);
  if (!character.printable) return character;
  if (contains(kZeroWidth, code)) character.width = 0;
  if (contains(kWide, code)) character.width = 2;
  return character;
}

}  // namespace

int display_width(std::string_view utf8) {
  int width = 0;
  while (!utf8.empty()) width += take_character(utf8).width;
  return width;
}

std::string fit_to_width(std::string_view utf8, int width) {
  const bool cut = display_width(utf8) > width;
  const int available = cut ? width - 1 : width;
  std::string fitted;
  int used = 0;
  while (!utf8.empty()) {
    const Character character = take_character(utf8);
    if (used + character.width > available) break;
    used += character.width;
    if (character.printable)
      fitted += character.bytes;
    else
      fitted += static_cast<unsigned char>(character.bytes.front()) < 0x80 ? ' ' : '?';
  }
  if (cut && width > 0) fitted += "…";
  return fitted;
}

std::string fit_path_to_width(std::string_view utf8, int width) {
  if (display_width(utf8) <= width) return fit_to_width(utf8, width);
  for (std::size_t slash = utf8.find('/'); slash != std::string_view::npos; slash = utf8.find('/', slash + 1))
    if (display_width(utf8.substr(slash)) < width) return "…" + fit_to_width(utf8.substr(slash), width - 1);
  if (width < 2 || utf8.find('/') == std::string_view::npos) return fit_to_width(utf8, width);
  while (display_width(utf8) >= width) take_character(utf8);
  return "…" + fit_to_width(utf8, width - 1);
}

std::string wrap(std::string_view utf8, int width, int indent) {
  std::string lines;
  int used = 0;
  bool line_is_empty = true;
  for (const std::string_view word : split_words(utf8)) {
    const int word_width = display_width(word);
    if (!line_is_empty && used + 1 + word_width > width) {
      lines += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      used = indent;
      line_is_empty = true;
    }
    if (!line_is_empty) {
      lines += ' ';
      ++used;
    }
    lines += fit_to_width(word, width - used);
    used += word_width;
    line_is_empty = false;
  }
  return lines;
}

std::string without_control_characters(std::string_view utf8) {
  constexpr int kNoLimit = 1 << 30;
  return fit_to_width(utf8, kNoLimit);
}

std::string first_columns(std::string_view utf8, int width) {
  std::string text = without_control_characters(utf8);
  const auto is_inside = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  while (display_width(text) > width) {
    while (is_inside(text.back())) text.pop_back();
    text.pop_back();
  }
  return text;
}

}  // namespace headroom
