// The two columns of a summary.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace headroom::trace {

// 12345678 → "12 345 678".
inline std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), " ");
  return text;
}

inline std::string line(std::string_view label, const std::string& text) {
  return fmt::format("  {:<12} {}\n", label, text);
}

}  // namespace headroom::trace
