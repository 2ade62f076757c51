#include <string_view>

#include "memory_tracer/script_layers.h"

namespace headroom::memory_tracer {

ScriptPlace parse_script_place(const std::vector<std::string>& hierarchy) {
  ScriptPlace place;
  for (const std::string_view entry : hierarchy) {
    const std::size_t open = entry.find('('), close = entry.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) continue;
    const std::string_view name = entry.substr(0, open);
    if (name == "TOP") {
      place.is_in_module = true;
      place.root = entry.substr(open + 1, close - open - 1);
      place.names.clear();
    } else if (place.is_in_module && !name.empty() && name != "SELF" && name != "INSTANCE_NAME_UNKNOWN") {
      place.names.emplace_back(name);
    }
  }
  return place;
}

}  // namespace headroom::memory_tracer
