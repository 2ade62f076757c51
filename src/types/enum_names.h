// Names of enums whose values count up from 0.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace headroom {

// The name at the value's place; the first name for a value outside the enum.
template <class Enum, std::size_t count>
constexpr std::string_view name_in(const std::string_view (&names)[count], Enum value) {
  const auto place = static_cast<std::size_t>(value);
  return names[place < count ? place : 0];
}

// The value from 0 to `last` that name_of() gives this name.
template <class Enum>
constexpr std::optional<Enum> find_named(std::string_view name, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace headroom
