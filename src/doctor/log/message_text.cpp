#include "doctor/log/message_text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace headroom::doctor {
namespace {

void skip_spaces(std::string_view& text) {
  const std::size_t at = text.find_first_not_of(' ');
  text.remove_prefix(at == text.npos ? text.size() : at);
}

constexpr std::size_t kLongestUnit = 16;

// The factor of "MiB", "MB", "M", "kB"; 1 for "bytes", "B" and other words. A single E is usually part of a
// word.
double factor_of(std::string_view unit) {
  if (unit.empty()) return 1;
  const std::size_t rank = std::string_view("KMGTPE").find(static_cast<char>(std::toupper(unit.front())));
  if (rank == std::string_view::npos || unit == "E" || unit == "e") return 1;
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB" && rest != "i" && rest != "b" && rest != "ib") return 1;
  return std::ldexp(1.0, 10 * (static_cast<int>(rank) + 1));
}

// "1,073,741,824 bytes" without its commas, and "1900,00 MiB" with a point, as programs print it in some
// languages. Empty if there is no comma, or if it may be something else: "1,5" without a unit.
std::string without_commas(std::string_view text) {
  constexpr std::size_t kGroup = 3, kMostDigits = 21;
  const auto digits_from = [text](std::size_t at) {
    return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
  };
  std::size_t at = digits_from(0);
  if (at == 0 || at == text.size() || text[at] != ',') return {};
  std::string plain(text.substr(0, at));
  const std::size_t decimals = digits_from(at + 1);
  if (decimals > 0 && decimals < kGroup) {
    if (factor_of(leading_letters(text.substr(at + 1 + decimals))) == 1) return {};
    return plain.append(".").append(text.substr(at + 1, decimals + kLongestUnit));
  }
  if (decimals != kGroup || at > kGroup) return {};
  while (at < text.size() && text[at] == ',' && digits_from(at + 1) == kGroup && plain.size() < kMostDigits) {
    plain += text.substr(at + 1, kGroup);
    at += 1 + kGroup;
  }
  return plain.append(text.substr(at, kLongestUnit));
}

// The sum of two smaller sizes fits in 64 bits.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 62;

struct ParsedSize {
  double bytes = 0;  // exact up to 8 PiB, more than any machine has
  std::string text;  // with its unit, if it has one
};

bool is_hexadecimal(std::string_view text) { return text.starts_with("0x") || text.starts_with("0X"); }

// "0x4000000", as the kernel's %zx prints a size without a unit.
std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) {
  constexpr std::size_t kPrefix = 2;
  constexpr int kBase = 16;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data() + kPrefix, end, number, kBase).ec != std::errc{}) return std::nullopt;
  return number;
}

std::optional<ParsedSize> parse_size(std::string_view text) {
  skip_spaces(text);
  if (is_hexadecimal(text)) {
    const auto number = parse_hexadecimal(text);
    if (!number) return std::nullopt;
    return ParsedSize{static_cast<double>(*number), std::to_string(*number)};
  }
  if (const std::string plain = without_commas(text); !plain.empty()) return parse_size(plain);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return std::nullopt;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, code] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (code != std::errc{} || !std::isfinite(number)) return std::nullopt;
  // "1e3", "1,5": other notations, whose first digits alone would be wrong.
  const bool goes_on = after + 1 < end && (*after == 'e' || *after == ',') &&
                       std::isdigit(static_cast<unsigned char>(after[1])) != 0;
  if (goes_on) return std::nullopt;
  const std::string_view unit = leading_letters({after, static_cast<std::size_t>(end - after)});
  const double factor = factor_of(unit);
  ParsedSize size{number * factor, std::string(text.data(), after)};
  if (factor != 1) size.text.append(" ").append(unit);
  return size;
}

bool overflows(const ParsedSize& size) { return size.bytes >= static_cast<double>(kLargestSize); }

bool fits_any(std::string_view words, auto fits) {
  do {
    if (fits(take_before(words, "|"))) return true;
  } while (!words.empty());
  return false;
}

// The factor of a unit of Kubernetes, directly after the number: "Mi" is 2^20, "M" 10^6, "m" a thousandth.
// Nothing for other words.
std::optional<double> factor_of_quantity(std::string_view rest) {
  const std::string_view unit = rest.starts_with(' ') ? std::string_view() : leading_letters(rest);
  if (unit.empty()) return 1;
  if (unit == "m") return 1e-3;
  const bool is_binary = unit.size() == 2 && unit.back() == 'i';
  if (unit.size() > 1 && !is_binary) return std::nullopt;
  const std::size_t rank = unit == "k" ? 0 : std::string_view("KMGTPE").find(unit.front());
  if (rank == std::string_view::npos) return std::nullopt;
  const int power = static_cast<int>(rank) + 1;
  return is_binary ? std::ldexp(1.0, 10 * power) : std::pow(1000.0, power);
}

}  // namespace

bool has(std::string_view line, std::string_view words) { return line.find(words) != line.npos; }

bool has_any(std::string_view line, std::string_view words) {
  return fits_any(words, [line](std::string_view word) { return has(line, word); });
}
bool starts_with_any(std::string_view text, std::string_view words) {
  return fits_any(words, [text](std::string_view word) { return text.starts_with(word); });
}
bool ends_with_any(std::string_view text, std::string_view words) {
  return fits_any(words, [text](std::string_view word) { return text.ends_with(word); });
}
bool is_any(std::string_view word, std::string_view words) {
  return fits_any(words, [word](std::string_view each) { return word == each; });
}

bool is_name_letter(char letter) {
  return letter == '_' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

bool is_word(std::string_view line, std::string_view words) {
  for (std::size_t at = line.find(words); at != line.npos; at = line.find(words, at + 1))
    if (at == 0 || !is_name_letter(line[at - 1])) return true;
  return false;
}

std::string_view leading_letters(std::string_view text) {
  skip_spaces(text);
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::ranges::find_if_not(text, is_letter);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

std::string_view take_before(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + separator.size());
  return part;
}

std::optional<std::string_view> text_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return std::nullopt;
  return line.substr(at + words.size());
}

std::optional<Bytes> leading_size(std::string_view text) {
  const auto size = parse_size(text);
  if (!size || overflows(*size)) return std::nullopt;
  return Bytes{std::llround(size->bytes)};
}

std::optional<std::string> leading_overflow(std::string_view text) {
  auto size = parse_size(text);
  return size && overflows(*size) ? std::optional(std::move(size->text)) : std::nullopt;
}

std::optional<Bytes> leading_quantity(std::string_view text) {
  skip_spaces(text);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return std::nullopt;
  double number = 0;
  const auto [after, code] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  if (code != std::errc{} || !std::isfinite(number)) return std::nullopt;
  const auto factor = factor_of_quantity(text.substr(static_cast<std::size_t>(after - text.data())));
  if (!factor || number * *factor >= static_cast<double>(kLargestSize)) return std::nullopt;
  return Bytes{std::llround(number * *factor)};
}

std::optional<Bytes> size_with_unit(std::string_view text) {
  skip_spaces(text);
  const bool is_cut = text.find_first_not_of("0123456789.") == text.npos;
  return is_cut ? std::nullopt : leading_size(text);
}

std::optional<std::int64_t> integer_after(std::string_view line, std::string_view words) {
  auto text = text_after(line, words);
  if (!text) return std::nullopt;
  skip_spaces(*text);
  if (is_hexadecimal(*text)) {
    const auto bits = parse_hexadecimal(*text);
    if (!bits || *bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return std::nullopt;
    return static_cast<std::int64_t>(*bits);
  }
  std::int64_t number = 0;
  if (std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

}  // namespace headroom::doctor
