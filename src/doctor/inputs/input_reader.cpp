#include "doctor/inputs/input_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "base/text.h"
#include "doctor/inputs/readers.h"
#include "report/input/footprint_input.h"
#include "report/input/input_kind.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

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

// Whether these bytes are not text but an executable, a model or a picture. Logs may have color codes, and
// runs of zeros after a power failure.
bool is_binary(const std::string& begin) {
  if (begin.starts_with("\x1f\x8b")) return false;  // gzip, which may hold a log
  const auto odd = std::count_if(begin.begin(), begin.end(), [](unsigned char byte) {
    return byte != 0 && (byte < 7 || (byte > 13 && byte < 27) || (byte > 27 && byte < 32));
  });
  return static_cast<std::size_t>(odd) * 50 > begin.size();
}

// The error for a log in a form that doctor does not read, with the way to convert it.
std::optional<Error> why_not_readable(const std::string& begin, const std::string& path) {
  const auto error = [&](std::string why, std::string fix) {
    return Error{ErrorKind::input, fmt::format("cannot read {}", path), std::move(why), std::move(fix)};
  };
  if (begin.starts_with("time_seconds,unix_time_seconds,"))
    return error("it is a CSV log of headroom watch, which has no totals of memory and swap",
                 "log with --output FILE.jsonl and use that file");
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff"))
    return error(
        "it is text in UTF-16",
        fmt::format("convert it: iconv -f UTF-16 -t UTF-8 {} | headroom doctor -", shell_word(path)));
  // Compressors of logrotate and others. Logs compressed with gzip are read directly.
  struct Packed {
    std::string_view magic, name, unpack;
  };
  constexpr Packed kPacked[] = {{"\xfd"
                                 "7zXZ",
                                 "xz", "xz -dc"},
                                {"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
                                {"BZh", "bzip2", "bzip2 -dc"}};
  for (const Packed& packed : kPacked)
    if (begin.starts_with(packed.magic) && is_binary(begin))
      return error(fmt::format("it is compressed with {}", packed.name),
                   fmt::format("decompress it: {} {} | headroom doctor -", packed.unpack, shell_word(path)));
  return std::nullopt;
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

}  // namespace

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
  if (const auto unreadable = why_not_readable(begin, path)) {
    if (if_binary == IfBinary::error) return tl::unexpected(*unreadable);
    return keep_words(fmt::format("skipped: {}; {}", unreadable->why, unreadable->fix), path, "file",
                      examination);
  }
  if (is_binary(begin)) {
    if (if_binary == IfBinary::error)
      return input_error(fmt::format("cannot read {}", path),
                         "it is not text and not a file of Headroom or PyTorch",
                         "name logs, recordings, snapshots or runs");
    examination.left_out.push_back(path);
    return {};
  }
  if (const std::string tool = tool_of(begin); !tool.empty())
    return read_tool_text_and_log(tool, path, examination);
  return read_as_log(path, examination);
}

}  // namespace headroom::doctor
