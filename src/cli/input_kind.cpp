#include "cli/input_kind.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/recording_report.h"
#include "tui/replay_log.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBegin = 4096;
constexpr std::string_view kGzip = "\x1f\x8b";
// A report whose keys come in another order is known by parsing all of it; the largest of the tests has 0.3
// MiB.
constexpr Bytes kLargestSorted = mebibytes(64);

std::string begin_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string begin(kBegin, '\0');
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
  return begin;
}

// Without a byte order mark and the white space that JSON may begin with.
std::string_view document_in(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

// What the first bytes of a gzip file unpack to.
std::string unpacked(std::string_view begin) {
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  z_stream stream{};
  if (inflateInit2(&stream, kGzipFormat) != Z_OK) return {};
  std::string packed(begin), text(kBegin, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  inflate(&stream, Z_SYNC_FLUSH);  // the rest is not there: what came out by then counts
  text.resize(text.size() - stream.avail_out);
  inflateEnd(&stream);
  return text;
}

bool has_key(std::string_view text, std::string_view key) {
  return text.find(fmt::format("\"{}\"", key)) != text.npos;
}

// The first line that is not empty. A sample with all processes of a large machine is some hundred KiB.
std::string first_line(const fs::path& file) {
  constexpr std::size_t kLongestLine = 4 << 20;
  std::ifstream stream(file, std::ios::binary);
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

bool is_report(const Json& document) {
  return document.is_object() && document.contains("run_name") && document.contains("schema_version");
}

bool is_sample(const std::optional<Json>& line) {
  const auto has_list = [&](const char* key) { return line->contains(key) && (*line)[key].is_array(); };
  return line && line->is_object() && line->contains("time_ns") && !line->contains("run_name") &&
         (line->contains("ram_total_bytes") || has_list("gpus") || has_list("processes"));
}

}  // namespace

std::string_view words_for(InputKind kind) {
  switch (kind) {
    case InputKind::recording:
      return "a recording";
    case InputKind::run:
      return "a run of headroom bench";
    case InputKind::footprint:
      return "a footprint";
    case InputKind::watch_log:
      return "a log of headroom watch";
  }
  return "";
}

bool begins_as_watch_log(std::string_view begin) {
  const std::string text = begin.starts_with(kGzip) ? unpacked(begin) : std::string(begin);
  const std::string_view document = document_in(text);
  return document.starts_with('{') && has_key(document, "ram_total_bytes");
}

std::optional<InputKind> known_kind(const fs::path& file) {
  if (file.extension() == ".hrec") return InputKind::recording;
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return std::nullopt;  // a pipe can be read once
  if (is_recording(file)) return InputKind::recording;
  const std::string begin = begin_of(file);
  if (begin.starts_with(kGzip)) {
    const std::string text = unpacked(begin);
    const bool may_be = document_in(text).starts_with('{') &&
                        (has_key(text, "ram_total_bytes") || has_key(text, "processes"));
    return may_be && tui::ReplayLog::open(file) ? std::optional(InputKind::watch_log) : std::nullopt;
  }
  const std::string_view document = document_in(begin);
  if (!document.starts_with('{')) return std::nullopt;
  const auto line = parse_json(first_line(file));
  if (!line && has_key(document, "model_fingerprint") && has_key(document, "runtime_bytes"))
    return InputKind::footprint;
  if (is_sample(line ? std::optional(*line) : std::nullopt)) return InputKind::watch_log;
  if (line && !is_report(*line)) return std::nullopt;
  // A document over several lines, a damaged one, or all in one line, as the lines of a log may be.
  const bool names_itself = has_key(document, "run_name") && has_key(document, "schema_version");
  const auto text = read_file(file, names_itself ? kLargestReport : kLargestSorted);
  const auto whole = text ? parse_json(document_in(*text)) : parse_json("");
  if (whole ? is_report(*whole) : names_itself && !line) return InputKind::run;
  if (!whole && has_key(document, "time_ns") && has_key(document, "ram_total_bytes"))
    return InputKind::watch_log;
  return std::nullopt;
}

}  // namespace headroom::cli
