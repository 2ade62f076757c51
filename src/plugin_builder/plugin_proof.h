// Loads a plug-in in a child process, because a library that is wrong for this machine may crash its process.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom::plugin_builder {

enum class PluginInterface { backend, publisher, memory_tracer };

struct Proof {
  std::string version;  // the runtime's; empty if it does not start here
  std::string problem;  // why it does not start; empty if it does
};

// An error: the file cannot be loaded, lacks its function, has another interface, or ended the child.
Result<Proof> prove(const std::filesystem::path& file, PluginInterface interface);

}  // namespace headroom::plugin_builder
