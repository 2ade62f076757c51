// Small text helpers that the standard library of g++ 12 lacks.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

// Without leading and trailing ASCII white space.
std::string_view trim(std::string_view text);
// ASCII lower case; other bytes are kept.
std::string to_lower(std::string_view text);
// As members of std::string have them since C++20. For sources that plug-ins compile as C++17.
constexpr bool starts_with(std::string_view text, std::string_view words) {
  return text.substr(0, words.size()) == words;
}
constexpr bool ends_with(std::string_view text, std::string_view words) {
  return text.size() >= words.size() && text.substr(text.size() - words.size()) == words;
}
// Splits at each separator; empty fields are kept. split("a,,b", ',') is {"a", "", "b"}.
std::vector<std::string_view> split(std::string_view text, char separator);
// Splits at runs of white space; no empty fields.
std::vector<std::string_view> split_words(std::string_view text);
// True if the texts are equal without regard to ASCII case.
bool equals_ignoring_case(std::string_view a, std::string_view b);
// Orders file names naturally: digits compare as numbers ("frame2" before "frame10").
bool natural_less(std::string_view a, std::string_view b);
// The closest candidate by edit distance, if it is close enough to be a typing error; otherwise empty.
std::string closest_match(std::string_view word, const std::vector<std::string>& candidates);
// "did you mean 'X'?" with the closest candidate, or `otherwise`.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view otherwise = {});

// Quotes a word for a shell if necessary, and removes control characters that would control the terminal.
std::string shell_word(std::string_view word);
// A command line that a shell splits into these words again.
std::string shell_command(const std::vector<std::string>& words);

// A field of a CSV file (RFC 4180): in quotes if it has a comma, a quote or a line break.
std::string csv_field(std::string_view text);

// Parses the whole text as a number; returns nothing if it is not one.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Names that users give to things that several processes share (--share, --in-step).
inline constexpr std::size_t kLongestPlainName = 64;

// Letters, digits, '.', '_' and '-', at most kLongestPlainName characters. Such a name never needs quotes.
constexpr bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPlainName &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string_view::npos;
}

}  // namespace headroom
