// Reading figures out of messages. Sizes are binary whatever the unit's spelling (kB, KiB, K): those who
// print such messages divide by 1024 (the kernel, PyTorch, TensorFlow, ggml). Kubernetes alone tells the two
// apart, and has a reader of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace headroom::doctor {

bool has(std::string_view line, std::string_view words);
// Whether they stand there with no letter, digit or underscore before them.
bool is_word(std::string_view line, std::string_view words);
// Whether the text begins like this: a digit for each 0, a digit or a space for each 9, a letter for each a.
bool has_shape(std::string_view text, std::string_view shape);
// What follows the first of these words; nothing if the line lacks them.
std::optional<std::string_view> text_after(std::string_view line, std::string_view words);
// The text's first word that is a size: "2.00 MiB", "100Mi", "0 bytes", "3.90G", "13928044kB", "0x4000000".
// No unit: bytes. Before a unit "1900,00" has a comma for its point.
std::optional<Bytes> leading_size(std::string_view text);
// The same of Kubernetes' quantities: "100Mi" is 100 MiB, "500M" 500,000,000 bytes, "129e6" 129,000,000.
std::optional<Bytes> leading_quantity(std::string_view text);
// A size there of 2^62 bytes and more, which leading_size does not tell, as it is printed:
// "18446744073709551612", "16.0 EiB". None is real.
std::optional<std::string> leading_overflow(std::string_view text);
std::optional<Bytes> size_after(std::string_view line, std::string_view words);
// The same of messages that print a unit behind each size: a number at the text's end without one was cut
// off, "of 95.00" and "anon-rss:147", and is none.
std::optional<Bytes> size_with_unit(std::string_view text);
std::optional<Bytes> size_with_unit_after(std::string_view line, std::string_view words);
std::optional<Bytes> quantity_after(std::string_view line, std::string_view words);
// Decimal, or hexadecimal behind "0x".
std::optional<std::int64_t> integer_after(std::string_view line, std::string_view words);

// Whether no machine has so much (16 TiB): a size that was computed wrong, and no want of memory.
constexpr bool is_impossible(Bytes size) { return size.count >= (std::int64_t{1} << 44); }

}  // namespace headroom::doctor
