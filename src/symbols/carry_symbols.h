// Copies the files that a recording needs for names into one folder. Take this folder to another machine
// together with the recording; `--symbols DIR` reads it there.
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
  std::size_t modules = 0;            // modules for which a file was found
  std::size_t files = 0;              // their files in the folder, including those that were there before
  Bytes copied;                       // bytes written by this call
  std::vector<std::string> problems;  // one sentence for each module that cannot be copied
};

// Copies each module and its debug files to `folder`/.build-id/xx/yyyy and …/yyyy.debug, the layout that
// distributions use. Existing files stay. Copies are atomic. Errors: the folder cannot be created or written;
// a module without a file is only a problem.
Result<CarriedSymbols> carry_symbols(const std::vector<recording::Module>& modules,
                                     const SymbolizerOptions& options, const std::filesystem::path& folder);

}  // namespace headroom::symbols
