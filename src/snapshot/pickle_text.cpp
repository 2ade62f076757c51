#include "snapshot/pickle_text.h"

#include <charconv>
#include <cstdint>

#include "base/utf8.h"

namespace headroom::snapshot {
namespace {

// Parses `digits` hexadecimal digits at `at`. Nothing if they are missing.
std::optional<std::uint32_t> hex_at(std::string_view text, std::size_t at, std::size_t digits) {
  if (at + digits > text.size()) return {};
  const char* const begin = text.data() + at;
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
  if (error != std::errc{} || end != begin + digits) return {};
  return code;
}

}  // namespace

std::optional<std::string> unquoted(std::string_view line) {
  if (line.size() < 2 || (line.front() != '\'' && line.front() != '"') || line.back() != line.front())
    return {};
  line = line.substr(1, line.size() - 2);
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      text += line[i];
      continue;
    }
    const char escaped = line[++i];
    if (escaped == 'x') {
      const auto code = hex_at(line, i + 1, 2);
      if (!code) return {};
      text += static_cast<char>(*code);
      i += 2;
    } else {
      text += escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : escaped == 't' ? '\t' : escaped;
    }
  }
  return text;
}

std::string from_raw_unicode(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char kind = line[i] == '\\' && i + 1 < line.size() ? line[i + 1] : '\0';
    const std::size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const auto code = digits > 0 ? hex_at(line, i + 2, digits) : std::nullopt;
    if (code && *code <= 0x10ffff) {
      append_utf8(text, *code);
      i += 1 + digits;
    } else {
      append_utf8(text, static_cast<std::uint8_t>(line[i]));
    }
  }
  return text;
}

}  // namespace headroom::snapshot
