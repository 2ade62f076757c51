#include "doctor/inputs/examine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "base/log.h"
#include "base/text.h"
#include "base/text_decoder.h"
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
  const auto size = static_cast<std::size_t>(stream.gcount());
  begin.resize(size / 2 * 3 + 1);  // room for text in UTF-16
  begin.resize(TextDecoder().decode(begin.data(), size));
  return begin;
}

// Whether these bytes are not text but an executable, an archive, a model or a picture. Logs may have color
// codes, and runs of zeros after a power failure.
bool is_binary(const std::string& begin) {
  if (begin.starts_with("\x1f\x8b")) return false;  // gzip, which may hold a log
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

// A file that Headroom or PyTorch wrote. Absent for others.
std::optional<Status> read_known(const fs::path& file, Examination& examination) {
  Findings& findings = examination.result.report.findings;
  if (const auto known = report::known_kind(file)) switch (*known) {
      case report::InputKind::recording: {
        Status kept = examination.add(file, "recording", read_recording(file, findings));
        if (kept) read_other_processes(file, examination);
        return kept;
      }
      case report::InputKind::run:
        return examination.add(file, "run", read_run(file, findings));
      case report::InputKind::watch_log:
        return examination.add(file, "watch log", read_watch_log(file, file.string(), findings));
      case report::InputKind::footprint:
        return examination.add(file, "footprint", read_footprint(file));
    }
  std::error_code code;
  if (!fs::is_regular_file(file, code) || !snapshot::is_snapshot_file(file)) return std::nullopt;
  return examination.add(file, "snapshot", read_snapshot(file, findings));
}

Status read_as_log(const std::string& path, Examination& examination) {
  auto lines = examination.logs.read_file(path);
  if (!lines) return forward_error(lines);
  return examination.add(path == "-" ? "standard input" : path, "log",
                         *lines == 0 ? "it is empty" : "a log of " + counted(*lines, "line"));
}

Status read_standard_input(Examination& examination) {
  auto watch_log = watch_log_on_input();
  if (!watch_log) return forward_error(watch_log);
  if (!*watch_log) return read_as_log("-", examination);
  const std::string copy = fmt::format("/proc/self/fd/{}", (*watch_log)->get());
  return examination.add("standard input", "watch log",
                         read_watch_log(copy, "standard input", examination.result.report.findings));
}

// The output of a program may be in the same file: "nvidia-smi; python3 train.py".
Status read_tool_text_and_log(const std::string& tool, const std::string& path, Examination& examination) {
  auto words = read_tool_text(tool, path, examination.result.report.findings);
  if (!words) return forward_error(words);
  auto lines = examination.logs.read_file(path);
  if (!lines) return forward_error(lines);
  return examination.add(path, tool, *words + ", and read as a log of " + counted(*lines, "line"));
}

// Logs of other forms, by their first columns: what they are and what to log instead.
struct UnreadLog {
  std::string_view begin;
  const char *why, *fix;
};
constexpr UnreadLog kUnreadLogs[] = {
    {"time_seconds,unix_time_seconds,",
     "it is a CSV log of headroom watch, which has no totals of memory and swap",
     "log with --output FILE.jsonl and use that file"},
    {"time,uptime,jetson_clocks,",
     "it is a log of jtop (jetson_stats), whose RAM and SWAP are shares without the size",
     "log with headroom watch --output FILE.jsonl, or with tegrastats --logfile FILE, and use that file"},
};

// Recordings, snapshots, runs, logs of headroom watch and text of tegrastats and other tools have their own
// findings. Every other file is a log; "-" is standard input. After an error, earlier findings are kept.
Status read_input(const std::string& path, IfBinary if_binary, Examination& examination) {
  if (path == "-") return read_standard_input(examination);
  const fs::path file = path;
  std::error_code code;
  if (fs::is_directory(file, code))
    return examination.add(path, "run", read_run(file / "report.json", examination.result.report.findings));
  if (auto known = read_known(file, examination)) return std::move(*known);
  const std::string begin = first_bytes_of(file);
  const auto* const unread =
      std::ranges::find_if(kUnreadLogs, [&](const UnreadLog& each) { return begin.starts_with(each.begin); });
  if (unread != std::end(kUnreadLogs) || is_binary(begin)) {
    if (if_binary == IfBinary::leave_out) {
      examination.left_out.push_back(path);
      return {};
    }
    const std::string what = fmt::format("cannot read {}", path);
    if (unread != std::end(kUnreadLogs)) return input_error(what, unread->why, unread->fix);
    return input_error(
        what, "it is neither text in UTF-8 or UTF-16, plain or gzip, nor a file of Headroom or PyTorch",
        fmt::format("decompress or convert it, as in: xz -dc {} | headroom doctor -", shell_word(path)));
  }
  if (const std::string tool = tool_of(begin); !tool.empty())
    return read_tool_text_and_log(tool, path, examination);
  return read_as_log(path, examination);
}

constexpr const char* kWhatToName = "name logs, recordings, snapshots or runs of headroom bench";

// The inputs in a folder.
struct FolderInputs {
  static constexpr std::size_t kMostFiles = 1000;
  static constexpr int kDeepest = 4;  // folders below it
  std::vector<std::string> paths;     // a run is its folder; sorted by name
  // Folders of runs that ended before they wrote a report. Of their files, only run.log is in `paths`.
  std::vector<std::string> unfinished;
  std::size_t left_out = 0;  // files beyond kMostFiles
};

// Adds a run. Returns false for other folders.
bool add_run(const fs::path& folder, FolderInputs& inputs) {
  std::error_code ignored;
  if (fs::exists(folder / "report.json", ignored)) {
    inputs.paths.push_back(folder.string());
    return true;
  }
  if (!fs::exists(folder / "metadata.json", ignored) || !fs::exists(folder / "run.log", ignored))
    return false;
  inputs.unfinished.push_back(folder.string());
  inputs.paths.push_back((folder / "run.log").string());
  return true;
}

// Lists runs (folders with a report.json) and all other files. Skips names that begin with a dot, and does
// not follow links to folders. Fails if the folder cannot be read or has no inputs.
Result<FolderInputs> inputs_of_folder(const std::string& folder) {
  FolderInputs inputs;
  std::error_code code;
  if (add_run(folder, inputs)) return inputs;
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
      if (is_hidden || add_run(path, inputs) || at.depth() >= FolderInputs::kDeepest)
        at.disable_recursion_pending();
    } else if (!is_hidden && at->is_regular_file(ignored)) {
      inputs.paths.push_back(path.string());
    }
  }
  if (code) return input_error(fmt::format("cannot read the folder {}", folder), code.message());
  if (inputs.paths.empty())
    return input_error(fmt::format("nothing to read in {}", folder), "it has no report.json and no files",
                       kWhatToName);
  std::ranges::sort(inputs.paths);
  if (inputs.paths.size() > FolderInputs::kMostFiles) {
    inputs.left_out = inputs.paths.size() - FolderInputs::kMostFiles;
    inputs.paths.resize(FolderInputs::kMostFiles);
  }
  return inputs;
}

void note_error(const Error& error, Examined& result) {
  result.report.problems.push_back(error.sentence());
  if (result.first_error)
    log::warning("{}", error.sentence());
  else
    result.first_error = error;
}

void read_one(const std::string& path, IfBinary if_binary, Examination& examination) {
  if (path != "-" && !examination.is_new(path)) return;
  if (auto done = read_input(path, if_binary, examination); !done)
    note_error(done.error(), examination.result);
}

void read_folder(const std::string& folder, Examination& examination) {
  const auto inside = inputs_of_folder(folder);
  if (!inside) return note_error(inside.error(), examination.result);
  if (inside->left_out > 0) {
    const std::string words =
        fmt::format("more than {} files; {} were not read", FolderInputs::kMostFiles, inside->left_out);
    log::warning("{} has {}", folder, words);
    examination.add(folder, "folder", "it has " + words);
  }
  for (const std::string& run : inside->unfinished)
    examination.add(run, "run",
                    "a run of headroom bench that ended before it wrote a report; only its log was read");
  const std::size_t left_out_before = examination.left_out.size();
  for (const std::string& path : inside->paths) read_one(path, IfBinary::leave_out, examination);
  const std::size_t left_out = examination.left_out.size() - left_out_before;
  if (left_out == 0) return;
  const std::string names =
      fs::path(examination.left_out.back()).filename().string() + (left_out > 1 ? ", …" : "");
  if (left_out < inside->paths.size())
    examination.add(folder, "folder",
                    fmt::format("{} of its files {} skipped: not text ({})", left_out,
                                left_out == 1 ? "was" : "were", names));
  else
    note_error(Error{ErrorKind::input, fmt::format("nothing to read in {}", folder),
                     fmt::format("none of its files is text or a file of Headroom or PyTorch ({})", names),
                     kWhatToName},
               examination.result);
}

}  // namespace

Examined examine(const std::vector<std::string>& inputs, const std::optional<fs::path>& sysroot) {
  Examination examination;
  Examined& result = examination.result;
  for (const std::string& input : inputs) {
    std::error_code code;
    if (!fs::is_directory(input, code) || fs::exists(fs::path(input) / "report.json", code))
      read_one(input, IfBinary::error, examination);
    else
      read_folder(input, examination);
  }
  if (sysroot) {
    const std::string name = *sysroot == "/" ? "this machine" : sysroot->string();
    auto kept = examination.add(name, "machine", read_live_machine(*sysroot, name, result.report.findings));
    if (!kept) note_error(kept.error(), result);
  }
  for (Finding& finding : result.report.findings) sort_cures(finding);
  std::ranges::move(examination.logs.findings(), std::back_inserter(result.report.findings));
  return std::move(result);
}

}  // namespace headroom::doctor
