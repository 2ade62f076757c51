// Small text helpers that the standard library of g++ 12 lacks.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

// Without leading and trailing ASCII white space.
std::string_view trim(std::string_view text);
// ASCII lower case; other bytes are kept.
std::string to_lower(std::string_view text);
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

// Quotes a word for a shell if necessary, and removes control characters that would control the terminal.
std::string shell_word(std::string_view word);
// A command line that a shell splits into these words again.
std::string shell_command(const std::vector<std::string>& words);

// Parses the whole text as a number; returns nothing if it is not one.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace headroom
