// The machine's C++ compiler.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headroom::plugin_builder {

// The output of a command that succeeded, without the line break at its end. Empty if it failed or took
// longer than half a minute.
std::string output_of(const std::vector<std::string>& command);

struct Compiler {
  std::string program;               // "g++", or the environment's CXX
  std::vector<std::string> command;  // its words: CXX="ccache g++"
  std::string version;               // "9.4.0"
};

// The error names the package if there is none, or says that it is too old.
Result<Compiler> find_compiler();

// Runs the commands, as many at the same time as the machine has cores and memory for. After a failure, the
// error's `why` is the first error of the compiler, and the log has its output, cut after some pages.
// `progress` is called a few times a second with the number of commands that ended; false stops the build.
Status run_compiler(const std::vector<std::vector<std::string>>& commands,
                    const std::function<bool(std::size_t ended)>& progress);

}  // namespace headroom::plugin_builder
