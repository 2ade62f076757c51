// The sources of the plug-ins, which are part of an installation.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headroom::plugin_builder {

struct PluginSources {
  std::filesystem::path root;        // the folder that the sources' includes start from
  std::vector<std::string> sources;  // .cpp files, relative to `root`
};

// Reads ../share/headroom/plugins/plugin_sources.txt beside the folder of the program.
Result<PluginSources> find_sources(std::string_view plugin);

}  // namespace headroom::plugin_builder
