#include "plugin_builder/plugin_sources.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace headroom::plugin_builder {

Result<PluginSources> find_sources(std::string_view plugin) {
  PluginSources found;
  found.root = (executable_folder() / "../share/headroom/plugins").lexically_normal();
  const auto list = read_file(found.root / "plugin_sources.txt");
  if (!list)
    return input_error("the plug-ins' sources were not found", list.error().what,
                       "install Headroom's package with its share/ folder");
  for (const std::string_view line : split(*list, '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == plugin && words[1].ends_with(".cpp"))
      found.sources.emplace_back(words[1]);
  }
  if (found.sources.empty())
    return internal_error(
        fmt::format("{} lists no sources of {}", (found.root / "plugin_sources.txt").string(), plugin));
  return found;
}

}  // namespace headroom::plugin_builder
