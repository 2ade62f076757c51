// Formats samples as text (JSON lines, CSV, or a readable line), and writes them to a file.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "types/alert.h"
#include "types/sample.h"

namespace headroom::watch {

// Appends one JSON object as a line, with the alerts that began or ended. unknown_tokens is always present:
// an empty list is a result, too.
void append_json_line(std::string& text, const SystemSample& sample, std::span<const AlertEvent> alerts = {});
std::string json_line(const SystemSample& sample, std::span<const AlertEvent> alerts = {});

// CSV rows after a header. The columns are the figures of the first sample. A figure that first appears
// later has no column; this is reported once.
class CsvRows {
 public:
  void append(std::string& text, const SystemSample& sample);

 private:
  std::vector<std::string> columns_, cells_;
  bool has_warned_ = false;
};

// The sample's main figures as one line, with a newline:
// "   12.0 s  RAM 6.80 GiB of 7.40 GiB (92 %)  swap 2.60 GiB  CPU 94 %  GPU 84 %  tj 66 °C".
std::string line_for_person(const SystemSample& sample);

// Writes samples to a file: CSV, JSON lines, or gzip-compressed JSON lines (the compact recording) in members
// of at most five seconds: a killed watch loses no more than that.
//
// The file contains only whole lines. If a write fails half-way (disk full), the partial line is removed, a
// warning is logged once, and the write is tried again with every sample. When 4 MiB of text wait for it, the
// waiting samples are dropped and counted. A failed rotation is tried again, too.
class LogFile {
 public:
  // Creates FILE.csv, FILE.jsonl or FILE.jsonl.gz. Fails for another suffix, or if it cannot be created. An
  // existing log becomes the newest older one, as in a rotation. Without rotation it is an error.
  static Result<LogFile> create(std::filesystem::path path, Bytes rotate_at, int keep);

  // Writes a sample with the alerts that began or ended. CSV has no column for alerts.
  void write(const SystemSample& sample, std::span<const AlertEvent> alerts = {});
  // Writes the remaining samples. The error reports how many samples are missing.
  Status finish();

 private:
  enum class Kind { csv, jsonl, gzip };
  static std::string_view suffix_of(Kind kind);

  LogFile(std::filesystem::path path, Kind kind, Bytes rotate_at, int keep)
      : path_(std::move(path)), kind_(kind), rotate_at_(rotate_at), keep_(keep) {}
  Status open();
  void make_way() const;
  std::error_code move_aside(const std::filesystem::path& aside) const;
  void rotate();
  std::filesystem::path rotated_path(int number) const;
  void flush();
  bool write_whole(std::string_view bytes);

  std::filesystem::path path_;
  Kind kind_;
  Bytes rotate_at_;
  int keep_;
  UniqueFd file_;
  std::int64_t size_ = 0;  // bytes of whole lines
  std::string pending_;    // text that is not yet written
  std::int64_t pending_samples_ = 0, lost_ = 0;
  Nanoseconds last_flush_, rotate_after_;
  bool is_failing_ = false, rotation_failed_ = false;
  CsvRows csv_;
};

// Compresses into one complete gzip member (RFC 1952).
std::string gzip(std::string_view bytes);

}  // namespace headroom::watch
