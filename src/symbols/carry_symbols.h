// Gathers the files that a recording's names come from into one folder, to go with the recording to another
// machine, where `--symbols DIR` reads it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "recording/recording.h"
#include "symbols/symbolizer.h"

namespace headroom::symbols {

struct CarriedSymbols {
  std::size_t modules = 0;  // of which something was found
  std::size_t files = 0;    // in the folder that belong to them, those that were there before included
  Bytes copied;             // what was written now
  std::vector<std::string> problems;  // modules that cannot be carried, a sentence each
};

// Copies each module and its debug files as `folder`/.build-id/xx/yyyy and …/yyyy.debug, the layout of every
// distribution. Files that are there already stay; each appears whole or not at all.
Result<CarriedSymbols> carry_symbols(const std::vector<recording::Module>& modules,
                                     const SymbolizerOptions& options, const std::filesystem::path& folder);

}  // namespace headroom::symbols
