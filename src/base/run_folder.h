// The folder of one run, outputs/YYYY-MM-DD_HH-MM-SS/. An earlier run is never overwritten.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom {

struct RunFolder {
  std::string name;  // "2026-11-21_10-30-00"; "-2", "-3", … is added if that second is taken
  std::filesystem::path path;
  std::string started_at;  // when the folder was created (timestamp_now())
};

// Creates the folder. A failure is an input error (exit 2), because nothing has been measured yet.
Result<RunFolder> create_run_folder(const std::filesystem::path& output_dir);

// A model's name as a file name: everything but letters, digits, '.', '-' and '_' becomes '_'. An empty name,
// and one that starts with '.', gets a '_' in front.
std::string file_name_of(const std::string& model);

}  // namespace headroom
