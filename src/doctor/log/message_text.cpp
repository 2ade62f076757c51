#include "doctor/log/message_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace headroom::doctor {
namespace {

void skip_spaces(std::string_view& text) {
  const std::size_t at = text.find_first_not_of(' ');
  text.remove_prefix(at == text.npos ? text.size() : at);
}

// The word that a text begins with, after spaces.
std::string_view leading_letters(std::string_view text) {
  skip_spaces(text);
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::find_if_not(text.begin(), text.end(), is_letter);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
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

}  // namespace

bool has(std::string_view line, std::string_view words) { return line.find(words) != line.npos; }

bool is_word(std::string_view line, std::string_view words) {
  for (std::size_t at = line.find(words); at != line.npos; at = line.find(words, at + 1))
    if (at == 0 || !(line[at - 1] == '_' || std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0))
      return true;
  return false;
}

bool has_shape(std::string_view text, std::string_view shape) {
  if (text.size() < shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    const bool is_digit = std::isdigit(letter) != 0;
    bool fits = text[i] == shape[i];
    if (shape[i] == '0') fits = is_digit;
    if (shape[i] == '9') fits = is_digit || letter == ' ';
    if (shape[i] == 'a') fits = std::isalpha(letter) != 0;
    if (!fits) return false;
  }
  return true;
}

std::optional<std::string_view> text_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return std::nullopt;
  return line.substr(at + words.size());
}

namespace {

// "1,073,741,824 bytes" without its commas; empty if it has no thousands separators.
std::string without_commas(std::string_view text) {
  constexpr std::size_t kGroup = 3, kMostGroups = 6;
  const auto digits_from = [&](std::size_t at) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    return end - std::min(at, end);
  };
  std::size_t at = digits_from(0), groups = 0;
  if (at == 0 || at > kGroup) return {};
  std::string plain(text.substr(0, at));
  while (at < text.size() && text[at] == ',' && digits_from(at + 1) == kGroup && ++groups <= kMostGroups) {
    plain += text.substr(at + 1, kGroup);
    at += 1 + kGroup;
  }
  if (groups == 0) return {};
  return plain.append(text.substr(at, kLongestUnit));
}

// "1900,00 MiB" with a point, as programs print it in some languages; empty if the comma may be something
// else: no unit follows, or three digits do.
std::string with_point(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::size_t kMostDigits = 2;
  const std::size_t comma = std::min(text.find_first_not_of(kDigits), text.size());
  if (comma == 0 || comma == text.size() || text[comma] != ',') return {};
  const std::size_t end = std::min(text.find_first_not_of(kDigits, comma + 1), text.size());
  const std::string_view digits = text.substr(comma + 1, end - comma - 1);
  if (digits.empty() || digits.size() > kMostDigits) return {};
  if (factor_of(leading_letters(text.substr(end))) == 1) return {};
  std::string plain(text.substr(0, comma));
  return plain.append(".").append(digits).append(text.substr(end, kLongestUnit));
}

}  // namespace

namespace {

// The sum of two smaller sizes fits in 64 bits.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 62;

struct ParsedSize {
  double bytes = 0;
  std::optional<std::int64_t> whole;  // exactly, of a number without a unit
  std::string text;                   // with its unit, if it has one
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

std::optional<ParsedSize> parse_hexadecimal_size(std::string_view text) {
  const auto number = parse_hexadecimal(text);
  if (!number) return std::nullopt;
  ParsedSize size{static_cast<double>(*number), std::nullopt, std::to_string(*number)};
  if (*number < static_cast<std::uint64_t>(kLargestSize)) size.whole = static_cast<std::int64_t>(*number);
  return size;
}

std::optional<ParsedSize> parse_size(std::string_view text) {
  skip_spaces(text);
  if (is_hexadecimal(text)) return parse_hexadecimal_size(text);
  if (const std::string plain = without_commas(text); !plain.empty()) return parse_size(plain);
  if (const std::string plain = with_point(text); !plain.empty()) return parse_size(plain);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return std::nullopt;
  ParsedSize size;
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
  size.bytes = number * factor;
  size.text = std::string(text.data(), after);
  if (factor != 1) size.text.append(" ").append(unit);
  std::int64_t whole = 0;
  const auto [whole_after, whole_code] = std::from_chars(text.data(), end, whole);
  if (factor == 1 && whole_code == std::errc{} && whole_after == after) size.whole = whole;
  return size;
}

bool overflows(const ParsedSize& size) {
  return size.whole ? *size.whole >= kLargestSize : size.bytes >= static_cast<double>(kLargestSize);
}

// The factor of a unit of Kubernetes, directly after the number: "Mi" is 2^20, "M" 10^6, "m" a thousandth.
// Nothing for other words.
std::optional<double> factor_of_quantity(std::string_view rest) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_letter);
  std::string_view unit = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
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

std::optional<Bytes> leading_size(std::string_view text) {
  const auto size = parse_size(text);
  if (!size || overflows(*size)) return std::nullopt;
  return Bytes{size->whole ? *size->whole : std::llround(size->bytes)};
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

std::optional<Bytes> size_after(std::string_view line, std::string_view words) {
  const auto text = text_after(line, words);
  return text ? leading_size(*text) : std::nullopt;
}

std::optional<Bytes> size_with_unit(std::string_view text) {
  skip_spaces(text);
  const bool is_cut = text.find_first_not_of("0123456789.") == text.npos;
  return is_cut ? std::nullopt : leading_size(text);
}

std::optional<Bytes> size_with_unit_after(std::string_view line, std::string_view words) {
  const auto text = text_after(line, words);
  return text ? size_with_unit(*text) : std::nullopt;
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
