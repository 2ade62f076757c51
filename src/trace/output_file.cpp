#include "trace/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/run_folder.h"
#include "recording/is_recording.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

// Whether an earlier trace created this file: recordings of other processes, their index, and runtime
// profiles (onnxruntime-PID-N_DATE.json). Only such files are removed.
bool is_trace_file(const fs::path& path) {
  const std::string name = path.filename();
  return name == "index.json" || (name.starts_with("onnxruntime-") && name.ends_with(".json")) ||
         recording::is_recording(path);
}

Status remove_earlier(const fs::path& file) {
  std::error_code code;
  const std::string what = fmt::format("cannot replace {}", file.string());
  if (fs::exists(file, code) && !recording::is_recording(file))
    return usage_error(what, "it is not a recording", "choose another file with --out");
  fs::remove(file, code);
  if (code) return usage_error(what, code.message(), "choose another file with --out");
  const fs::path folder = tree_folder(file);
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (is_trace_file(entry.path())) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  fs::remove(folder, code);  // fails, as it should, if other files are in it
  return {};
}

// Creates and removes the file as a test: the preload library will create it anew, and cannot report an
// error.
Status check_writable(const fs::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd)
    return usage_error(fmt::format("cannot write {}", file.string()), errno_text(errno),
                       "choose a writable folder with --out");
  ::unlink(file.c_str());
  return {};
}

}  // namespace

fs::path tree_folder(const fs::path& recording) { return recording.string() + ".d"; }

Result<fs::path> prepare_output(const fs::path& wanted, const std::string& program, bool replace) {
  fs::path file = wanted;
  if (file.empty()) {
    auto folder = create_run_folder("outputs");
    if (!folder) {
      folder.error().fix = "choose a writable folder with --out";
      return forward_error(folder);
    }
    file = folder->path / (file_name_of(fs::path(program).filename().string()) + ".hrec");
  }
  std::error_code code;
  file = fs::absolute(file, code);
  if (fs::is_directory(file, code) || file.filename().empty())
    return usage_error(fmt::format("cannot write {}", wanted.string()), "it is a folder",
                       "give --out a file name, for example app.hrec");
  if (fs::exists(file, code) || fs::exists(tree_folder(file), code)) {
    if (!replace)
      return usage_error(fmt::format("{} already exists", file.string()), "",
                         "choose another name with --out, or replace it with --force");
    if (auto removed = remove_earlier(file); !removed) return forward_error(removed);
  }
  if (auto made = make_folder(file.parent_path()); !made) {
    made.error().kind = ErrorKind::usage;
    made.error().fix = "choose a writable folder with --out";
    return forward_error(made);
  }
  if (auto writable = check_writable(file); !writable) return forward_error(writable);
  return file;
}

}  // namespace headroom::trace
