#include "comparison/named_frame.h"

#include <array>

namespace headroom::comparison {

std::string_view without_clone_suffix(std::string_view function) {
  constexpr std::array<std::string_view, 7> kSuffixes{" [clone ", ".constprop.", ".isra.", ".part.",
                                                      ".cold",    ".lto_priv.",  ".llvm."};
  for (const std::string_view suffix : kSuffixes)
    if (const auto at = function.find(suffix); at != std::string_view::npos && at > 0)
      function = function.substr(0, at);
  return function;
}

std::string_view without_version(std::string_view module) {
  const auto at = module.find(".so.");
  return at == std::string_view::npos ? module : module.substr(0, at + 3);
}

}  // namespace headroom::comparison
