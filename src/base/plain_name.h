// Names that users give to things that several processes share (--share, --in-step).
#pragma once

#include <cstddef>
#include <string_view>

namespace headroom {

inline constexpr std::size_t kLongestPlainName = 64;

// Letters, digits, '.', '_' and '-', at most kLongestPlainName characters. Such a name never needs quotes.
constexpr bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPlainName &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string_view::npos;
}

}  // namespace headroom
