// Names that users give to what processes of theirs have in common (--share, --in-step).
#pragma once

#include <cstddef>
#include <string_view>

namespace headroom {

inline constexpr std::size_t kLongestPlainName = 64;

// Letters, digits, '.', '_' and '-', kLongestPlainName at most: such a name needs no quotes anywhere.
constexpr bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPlainName &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
             std::string_view::npos;
}

}  // namespace headroom
