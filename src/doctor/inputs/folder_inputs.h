// The inputs of headroom doctor in a folder.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace headroom::doctor {

struct FolderInputs {
  std::vector<std::string> paths;  // a run is its folder; sorted by name
  // Folders of runs that ended before they wrote a report. Of their files, only run.log is in `paths`.
  std::vector<std::string> unfinished;
  std::size_t left_out = 0;  // files beyond kMostFiles
  static constexpr std::size_t kMostFiles = 1000;
  static constexpr int kDeepest = 4;  // folders below it
};

// Lists runs (folders with a report.json) and all other files. Skips names that begin with a dot, and does
// not follow links to folders. Fails if the folder cannot be read or has no inputs.
Result<FolderInputs> inputs_of_folder(const std::string& folder);

}  // namespace headroom::doctor
