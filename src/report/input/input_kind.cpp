#include "report/input/input_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "base/files.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/text.h"
#include "recording/recording.h"
#include "report/input/run_input.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBegin = 4096;
// A report with another order of keys is read whole. The largest report of the tests has 0.3 MiB.
constexpr Bytes kLargestSorted = mebibytes(64);

std::string first_bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string begin(kBegin, '\0');
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
  return begin;
}

// The text without a byte order mark and without the white space before the document.
std::string_view document_in(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

// The first bytes of what a gzip file unpacks to, by its own first bytes.
std::string unpacked(std::string_view begin) {
  std::string text(kBegin, '\0');
  GzipReader reader(begin);
  std::size_t size = 0;
  while (size < text.size()) {
    const auto more = reader.read(text.data() + size, text.size() - size);
    if (!more || *more == 0) break;
    size += *more;
  }
  text.resize(size);
  return text;
}

bool has_key(std::string_view text, std::string_view key) {
  return text.find(fmt::format("\"{}\"", key)) != text.npos;
}

// The first line that is not empty. A sample with all processes of a large machine has some hundred KiB.
std::string first_line(std::istream&& stream) {
  constexpr std::size_t kLongestLine = 1 << 20;
  std::string line;
  for (char c = 0; line.size() < kLongestLine && stream.get(c);) {
    if (c != '\n')
      line += c;
    else if (document_in(line).empty())
      line.clear();
    else
      break;
  }
  return std::string(document_in(line));
}

bool is_report(const JsonKeys& keys) { return keys.has("run_name") && keys.has("schema_version"); }

// The line may be incomplete, and then the time may be in the missing part.
bool may_be_sample(const JsonKeys& line) {
  return (line.has("time_ns") || !line.is_whole) && !line.has("run_name") &&
         (line.has("ram_total_bytes") || line.has_list("gpus") || line.has_list("processes"));
}

// Logs of other programs are JSON, too, and can be very large: only their keys are kept.
JsonKeys keys_of(const fs::path& file, Bytes most) {
  std::error_code code;
  const std::uintmax_t size = fs::file_size(file, code);
  if (code || size > static_cast<std::uintmax_t>(most.count)) return {};
  std::ifstream stream(file, std::ios::binary);
  return read_json_keys(stream);
}

// Also detects damaged logs of headroom watch: reading them reports the damage.
Result<InputKind> kind_of_file(const fs::path& path, std::string_view what_fits) {
  if (const auto known = known_kind(path)) return *known;
  const std::string begin = first_bytes_of(path);
  if (begin.starts_with(kGzipMagic) || has_key(begin, "time_ns")) return InputKind::watch_log;
  const std::string what = fmt::format("cannot compare {}", path.string());
  if (begin.starts_with("time_seconds,"))
    return input_error(what, "it is a CSV log of headroom watch",
                       "log to FILE.jsonl: headroom watch --output FILE.jsonl");
  return input_error(what, begin.empty() ? "it is empty" : "unknown file format", std::string(what_fits));
}

}  // namespace

std::string_view words_for(InputKind kind) {
  return name_in({"a recording", "a run of headroom bench", "a footprint", "a log of headroom watch"}, kind);
}

bool begins_as_watch_log(std::string_view begin) {
  const std::string text = begin.starts_with(kGzipMagic) ? unpacked(begin) : std::string(begin);
  const std::string_view document = document_in(text);
  return document.starts_with('{') && has_key(document, "ram_total_bytes");
}

std::optional<InputKind> known_kind(const fs::path& file) {
  if (file.extension() == ".hrec") return InputKind::recording;
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return std::nullopt;  // a pipe can be read once
  if (recording::is_recording(file)) return InputKind::recording;
  const std::string begin = first_bytes_of(file);
  if (begin.starts_with(kGzipMagic)) {
    const JsonKeys line = read_json_keys(first_line(std::istringstream(unpacked(begin))));
    return may_be_sample(line) ? std::optional(InputKind::watch_log) : std::nullopt;
  }
  const std::string_view document = document_in(begin);
  if (!document.starts_with('{')) return std::nullopt;
  const JsonKeys line = read_json_keys(first_line(std::ifstream(file, std::ios::binary)));
  if (!line.is_whole && has_key(document, "model_fingerprint") && has_key(document, "runtime_bytes"))
    return InputKind::footprint;
  if (line.is_whole && may_be_sample(line)) return InputKind::watch_log;
  if (line.is_whole && !is_report(line)) return std::nullopt;
  // A document over several lines, a damaged one, or one line, which may be the line of a log.
  const bool names_itself = has_key(document, "run_name") && has_key(document, "schema_version");
  const JsonKeys whole = keys_of(file, names_itself ? kLargestReport : kLargestSorted);
  if (whole.is_whole ? is_report(whole) : names_itself && !line.is_whole) return InputKind::run;
  if (!whole.is_whole && has_key(document, "time_ns") && has_key(document, "ram_total_bytes"))
    return InputKind::watch_log;
  return std::nullopt;
}

Result<InputKind> kind_of_input(const fs::path& path, std::string_view what_fits) {
  std::error_code code;
  if (!fs::exists(path, code))
    return input_error(fmt::format("cannot open {}", path.string()),
                       code ? code.message() : "no such file or folder", "check the path");
  if (fs::is_regular_file(path, code)) return kind_of_file(path, what_fits);
  if (!fs::is_directory(path, code))
    return input_error(fmt::format("cannot compare {}", path.string()), "it is not a file or a folder",
                       std::string(what_fits));
  auto folder = runs_of_folder(path);
  if (!folder) return forward_error(folder);
  if (!folder->runs.empty()) return InputKind::run;
  // Of several reasons the first one is enough.
  return input_error(fmt::format("{} has no report.json", path.string()),
                     fmt::format("it is not a run of headroom bench and not a folder of runs{}",
                                 folder->left_out.empty() ? "" : ": " + folder->left_out.front()),
                     std::string(what_fits));
}

}  // namespace headroom::report
