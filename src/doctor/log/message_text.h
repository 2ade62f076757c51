// Reads figures from messages. Sizes are binary whatever the unit's spelling (kB, KiB, K), because the
// programs that print them divide by 1024. Only Kubernetes distinguishes the two and has a reader of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace headroom::doctor {

bool has(std::string_view line, std::string_view words);
// Whether the line has one of these words, begins or ends with one, or is one: "error|failure".
bool has_any(std::string_view line, std::string_view words);
bool starts_with_any(std::string_view text, std::string_view words);
bool ends_with_any(std::string_view text, std::string_view words);
bool is_any(std::string_view word, std::string_view words);
bool is_one_of(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != std::end(words);
}
bool is_name_letter(char letter);  // a letter, a digit or "_"
// As has(), but no letter, digit or underscore stands before the words.
bool is_word(std::string_view line, std::string_view words);
// The word that a text begins with, after spaces.
std::string_view leading_letters(std::string_view text);
// The text after the first occurrence of the words; nothing if the line lacks them.
std::optional<std::string_view> text_after(std::string_view line, std::string_view words);
// The text before the separator, which is removed with it; all of the text if there is none.
std::string_view take_before(std::string_view& text, std::string_view separator);
// The size that the text begins with: "2.00 MiB", "100Mi", "0 bytes", "3.90G", "13928044kB", "0x4000000".
// Without a unit it is in bytes. "1900,00 MiB" has a decimal comma.
std::optional<Bytes> leading_size(std::string_view text);
// The same for Kubernetes' quantities: "100Mi" is 100 MiB, "500M" 500,000,000 bytes, "129e6" 129,000,000.
std::optional<Bytes> leading_quantity(std::string_view text);
// A size of 2^62 bytes or more, as it is printed: "18446744073709551612", "16.0 EiB". No such size is real.
std::optional<std::string> leading_overflow(std::string_view text);
// The same for messages that always print a unit. A number without one at the end of the text ("of 95.00")
// was cut off and is ignored.
std::optional<Bytes> size_with_unit(std::string_view text);
// Decimal, or hexadecimal after "0x".
std::optional<std::int64_t> integer_after(std::string_view line, std::string_view words);

// More than any machine has (16 TiB): the size was computed wrong.
constexpr bool is_impossible(Bytes size) { return size.count >= (std::int64_t{1} << 44); }

}  // namespace headroom::doctor
