#include "doctor/inputs/folder_inputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/result.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

bool is_unfinished_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "metadata.json", ignored) && fs::exists(folder / "run.log", ignored) &&
         !fs::exists(folder / "report.json", ignored);
}

}  // namespace

Result<FolderInputs> inputs_of_folder(const std::string& folder) {
  FolderInputs inputs;
  std::error_code code;
  const auto add_unfinished = [&inputs](const fs::path& run) {
    inputs.unfinished.push_back(run.string());
    inputs.paths.push_back((run / "run.log").string());
  };
  if (is_unfinished_run(folder)) {
    add_unfinished(folder);
    return inputs;
  }
  if (::access(folder.c_str(), R_OK | X_OK) != 0)
    return input_error(fmt::format("cannot read the folder {}", folder), errno_text(errno),
                       "check its permissions");
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, options, code), end; !code && at != end;
       at.increment(code)) {
    const fs::path& path = at->path();
    const bool is_hidden = path.filename().string().starts_with('.');
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      const bool is_run = fs::exists(path / "report.json", ignored);
      const bool is_unfinished = !is_run && is_unfinished_run(path);
      if (is_hidden || is_run || is_unfinished || at.depth() >= FolderInputs::kDeepest)
        at.disable_recursion_pending();
      if (is_run && !is_hidden) inputs.paths.push_back(path.string());
      if (is_unfinished && !is_hidden) add_unfinished(path);
    } else if (!is_hidden && at->is_regular_file(ignored)) {
      inputs.paths.push_back(path.string());
    }
  }
  if (code) return input_error(fmt::format("cannot read the folder {}", folder), code.message());
  if (inputs.paths.empty())
    return input_error(fmt::format("nothing to read in {}", folder), "it has no report.json and no files",
                       "name logs, recordings, snapshots or runs of headroom bench");
  std::sort(inputs.paths.begin(), inputs.paths.end());
  if (inputs.paths.size() > FolderInputs::kMostFiles) {
    inputs.left_out = inputs.paths.size() - FolderInputs::kMostFiles;
    inputs.paths.resize(FolderInputs::kMostFiles);
  }
  return inputs;
}

}  // namespace headroom::doctor
