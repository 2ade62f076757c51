// Formats the lines of a summary, which have two columns: label and text.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace headroom::trace {

// 12345678 → "12,345,678".
inline std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

// Without control characters: names come from the traced program, and must not control the terminal.
inline std::string shortened(std::string_view name) {
  constexpr int kMostColumns = 48;
  return fit_to_width(name, kMostColumns);
}

inline std::string line(std::string_view label, std::string_view text) {
  return fmt::format("  {:<12} {}\n", label, without_control_characters(text));
}

}  // namespace headroom::trace
