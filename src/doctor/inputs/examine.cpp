#include "doctor/inputs/examine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "doctor/inputs/readers.h"
#include "report/input/input_kind.h"
#include "report/input/run_input.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

// What to do with a file that is neither text nor Headroom's: an error if the user named it, left out if it
// is only in a folder.
enum class IfBinary { error, leave_out };

// Empty for a FIFO, which can be read only once.
std::string first_bytes_of(const fs::path& file) {
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return {};
  std::string begin(4096, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

// Whether these bytes are not text but an executable, an archive, a model or a picture. Logs may have color
// codes, and runs of zeros after a power failure.
bool is_binary(const std::string& begin) {
  if (begin.starts_with("\x1f\x8b")) return false;  // gzip, which may hold a log
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff")) return true;  // UTF-16
  const auto odd = std::ranges::count_if(begin, [](unsigned char byte) {
    return byte != 0 && (byte < 7 || (byte > 13 && byte < 27) || (byte > 27 && byte < 32));
  });
  return static_cast<std::size_t>(odd) * 50 > begin.size();
}

// A footprint shows no fault: it is the memory that a model needs.
Result<std::string> read_footprint(const fs::path& file) {
  auto footprint = report::read_footprint(file);
  if (!footprint) {
    footprint.error().fix = "copy it again if it was cut off, or measure again";
    return forward_error(footprint);
  }
  return std::string(
      "a footprint of headroom bench, which doctor cannot examine; use headroom diff or headroom plan");
}

// A file that Headroom or PyTorch wrote: its kind, and what was read, in words.
struct KnownInput {
  std::string kind;
  Result<std::string> words;
};
std::optional<KnownInput> read_known(const fs::path& file, std::vector<Finding>& findings) {
  if (const auto known = report::known_kind(file)) switch (*known) {
      case report::InputKind::recording:
        return KnownInput{"recording", read_recording(file, findings)};
      case report::InputKind::run:
        return KnownInput{"run", read_run(file, findings)};
      case report::InputKind::watch_log:
        return KnownInput{"watch log", read_watch_log(file, file.string(), findings)};
      case report::InputKind::footprint:
        return KnownInput{"footprint", read_footprint(file)};
    }
  std::error_code code;
  if (!fs::is_regular_file(file, code) || !snapshot::is_snapshot_file(file)) return std::nullopt;
  return KnownInput{"snapshot", read_snapshot(file, findings)};
}

Status keep_words(Result<std::string> words, const std::string& path, const std::string& kind,
                  Examination& examination) {
  if (!words) return forward_error(words);
  examination.examined.push_back({path, kind, std::move(*words)});
  return {};
}

Status read_as_log(const std::string& path, Examination& examination) {
  auto lines = examination.logs.read_file(path);
  if (!lines) return forward_error(lines);
  return keep_words(*lines == 0 ? "it is empty" : "a log of " + counted(*lines, "line"),
                    path == "-" ? "standard input" : path, "log", examination);
}

Status read_standard_input(Examination& examination) {
  auto watch_log = watch_log_on_input();
  if (!watch_log) return forward_error(watch_log);
  if (!*watch_log) return read_as_log("-", examination);
  const std::string copy = fmt::format("/proc/self/fd/{}", (*watch_log)->get());
  return keep_words(read_watch_log(copy, "standard input", examination.findings), "standard input",
                    "watch log", examination);
}

// The output of a program may be in the same file: "nvidia-smi; python3 train.py".
Status read_tool_text_and_log(const std::string& tool, const std::string& path, Examination& examination) {
  auto words = read_tool_text(tool, path, examination.findings);
  if (!words) return forward_error(words);
  auto lines = examination.logs.read_file(path);
  if (!lines) return forward_error(lines);
  return keep_words(*words + ", and read as a log of " + counted(*lines, "line"), path, tool, examination);
}

// Recordings, snapshots, runs, logs of headroom watch and text of tegrastats and other tools have their own
// findings. Every other file is a log; "-" is standard input. After an error, earlier findings are kept.
Status read_input(const std::string& path, IfBinary if_binary, Examination& examination) {
  if (path == "-") return read_standard_input(examination);
  const fs::path file = path;
  std::error_code code;
  if (fs::is_directory(file, code))
    return keep_words(read_run(file / "report.json", examination.findings), path, "run", examination);
  if (auto known = read_known(file, examination.findings)) {
    auto kept = keep_words(std::move(known->words), path, known->kind, examination);
    if (kept && known->kind == "recording") read_other_processes(file, examination);
    return kept;
  }
  const std::string begin = first_bytes_of(file);
  const bool is_csv_of_watch = begin.starts_with("time_seconds,unix_time_seconds,");
  if (is_csv_of_watch || is_binary(begin)) {
    if (if_binary == IfBinary::leave_out) {
      examination.left_out.push_back(path);
      return {};
    }
    if (is_csv_of_watch)
      return input_error(fmt::format("cannot read {}", path),
                         "it is a CSV log of headroom watch, which has no totals of memory and swap",
                         "log with --output FILE.jsonl and use that file");
    return input_error(
        fmt::format("cannot read {}", path),
        "it is neither text in UTF-8, plain or gzip, nor a file of Headroom or PyTorch",
        fmt::format("decompress or convert it, as in: xz -dc {} | headroom doctor -", shell_word(path)));
  }
  if (const std::string tool = tool_of(begin); !tool.empty())
    return read_tool_text_and_log(tool, path, examination);
  return read_as_log(path, examination);
}

// The inputs in a folder.
struct FolderInputs {
  static constexpr std::size_t kMostFiles = 1000;
  static constexpr int kDeepest = 4;  // folders below it
  std::vector<std::string> paths;     // a run is its folder; sorted by name
  // Folders of runs that ended before they wrote a report. Of their files, only run.log is in `paths`.
  std::vector<std::string> unfinished;
  std::size_t left_out = 0;  // files beyond kMostFiles
};

bool is_unfinished_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "metadata.json", ignored) && fs::exists(folder / "run.log", ignored) &&
         !fs::exists(folder / "report.json", ignored);
}

// Lists runs (folders with a report.json) and all other files. Skips names that begin with a dot, and does
// not follow links to folders. Fails if the folder cannot be read or has no inputs.
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
  std::ranges::sort(inputs.paths);
  if (inputs.paths.size() > FolderInputs::kMostFiles) {
    inputs.left_out = inputs.paths.size() - FolderInputs::kMostFiles;
    inputs.paths.resize(FolderInputs::kMostFiles);
  }
  return inputs;
}

class Examiner {
 public:
  void add(const std::string& path) {
    std::error_code code;
    if (!fs::is_directory(path, code) || fs::exists(fs::path(path) / "report.json", code))
      read(path, IfBinary::error);
    else
      add_folder(path);
  }

  void add_machine(const fs::path& root) {
    const std::string name = root == "/" ? "this machine" : root.string();
    auto words = read_live_machine(root, name, examination_.findings);
    if (words)
      examination_.examined.push_back({name, "machine", std::move(*words)});
    else
      note(words.error());
  }

  Examined finish() {
    report::DoctorReport& report = result_.report;
    report.findings = std::move(examination_.findings);
    report.examined = std::move(examination_.examined);
    for (Finding& finding : examination_.logs.findings()) report.findings.push_back(std::move(finding));
    return std::move(result_);
  }

 private:
  void note(const Error& error) {
    result_.report.problems.push_back(error.sentence());
    if (result_.first_error)
      log::warning("{}", error.sentence());
    else
      result_.first_error = error;
  }

  void read(const std::string& path, IfBinary if_binary) {
    if (path != "-" && !examination_.is_new(path)) return;
    if (auto done = read_input(path, if_binary, examination_); !done) note(done.error());
  }

  void add_words(const std::string& folder, std::string words) {
    examination_.examined.push_back({folder, "folder", std::move(words)});
  }

  void add_folder(const std::string& folder) {
    const auto inside = inputs_of_folder(folder);
    if (!inside) return note(inside.error());
    if (inside->left_out > 0) {
      const std::string words =
          fmt::format("more than {} files; {} were not read", FolderInputs::kMostFiles, inside->left_out);
      log::warning("{} has {}", folder, words);
      add_words(folder, "it has " + words);
    }
    for (const std::string& run : inside->unfinished)
      examination_.examined.push_back(
          {run, "run", "a run of headroom bench that ended before it wrote a report; only its log was read"});
    const std::size_t left_out_before = examination_.left_out.size();
    for (const std::string& path : inside->paths) read(path, IfBinary::leave_out);
    const std::size_t left_out = examination_.left_out.size() - left_out_before;
    if (left_out == 0) return;
    const std::string names =
        fs::path(examination_.left_out.back()).filename().string() + (left_out > 1 ? ", …" : "");
    if (left_out < inside->paths.size())
      return add_words(folder, fmt::format("{} of its files {} skipped: not text ({})", left_out,
                                           left_out == 1 ? "was" : "were", names));
    note(Error{ErrorKind::input, fmt::format("nothing to read in {}", folder),
               fmt::format("none of its files is text or a file of Headroom or PyTorch ({})", names),
               "name logs, recordings, snapshots or runs of headroom bench"});
  }

  Examination examination_;
  Examined result_;
};

}  // namespace

Examined examine(const DoctorInputs& inputs) {
  Examiner examiner;
  for (const std::string& file : inputs.files) examiner.add(file);
  if (inputs.sysroot) examiner.add_machine(*inputs.sysroot);
  return examiner.finish();
}

}  // namespace headroom::doctor
