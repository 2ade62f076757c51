// A folder that headroom doctor is given: the runs and files in it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace headroom::cli {

struct FolderInputs {
  std::vector<std::string> paths;  // runs as their folders; by name
  // Folders of runs that ended before there was a report: of their files only run.log is among the paths.
  std::vector<std::string> unfinished;
  std::size_t left_out = 0;  // files beyond kMostFiles
  static constexpr std::size_t kMostFiles = 1000;
  static constexpr int kDeepest = 4;  // folders below it
};

// Runs (folders with a report.json) and all other files, without those whose names begin with a dot; links
// to folders are not followed. Errors: it cannot be read, or there is nothing in it.
Result<FolderInputs> inputs_of_folder(const std::string& folder);

}  // namespace headroom::cli
