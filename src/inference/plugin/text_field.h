// Copies text into the fixed-size fields of the plug-in interface.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace headroom::plugin {

// Copies and zero-terminates; cuts text that does not fit.
template <std::size_t size>
void copy_text(char (&to)[size], std::string_view from) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

}  // namespace headroom::plugin
