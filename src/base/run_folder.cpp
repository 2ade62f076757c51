#include "base/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <ctime>

#include "base/timestamp.h"

namespace headroom {
namespace fs = std::filesystem;

std::string file_name_of(const std::string& model) {
  std::string name = model;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

Result<RunFolder> create_run_folder(const fs::path& output_dir) {
  const std::string second = fmt::format("{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(std::time(nullptr)));
  const auto unwritable = [&](const std::error_code& code) {
    return input_error(fmt::format("cannot create a run folder in {}", output_dir.string()), code.message(),
                       "choose a writable folder with --output-dir");
  };
  std::error_code code;
  fs::create_directories(output_dir, code);
  if (code) return unwritable(code);
  for (int attempt = 1; attempt <= 1000; ++attempt) {
    RunFolder folder;
    folder.name = attempt == 1 ? second : fmt::format("{}-{}", second, attempt);
    folder.path = output_dir / folder.name;
    folder.started_at = timestamp_now();
    if (fs::create_directory(folder.path, code)) return folder;
    if (code) return unwritable(code);
  }
  return unwritable(std::make_error_code(std::errc::file_exists));
}

}  // namespace headroom
