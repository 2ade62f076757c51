// Samples in a file: CSV, JSON lines, or JSON lines compressed (the compact recording).
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "model/sample.h"
#include "watch/sample_writer.h"

namespace headroom::watch {

// What is written is whole lines: a write that fails half-way (a full disk) is taken back, said once, and
// tried again with every sample; so is a file that cannot be rotated. Compressed samples are written in
// members of a gzip file, each for at most five seconds, so a killed watch loses no more than that; without a
// kill nothing is lost.
class LogFile {
 public:
  // FILE.csv, FILE.jsonl or FILE.jsonl.gz. Errors: another suffix, the file exists, or cannot be made.
  static Result<LogFile> create(std::filesystem::path path, Bytes rotate_at, int keep);

  // With the alerts that began or ended, which CSV has no room for.
  void write(const SystemSample& sample, std::span<const AlertEvent> alerts = {});
  // Writes what is left. The error says how many samples are missing, if any.
  Status finish();

 private:
  enum class Kind { csv, jsonl, gzip };

  LogFile(std::filesystem::path path, Kind kind, Bytes rotate_at, int keep)
      : path_(std::move(path)), kind_(kind), rotate_at_(rotate_at), keep_(keep) {}
  Status open();
  void rotate();
  std::filesystem::path older(int number) const;
  void flush();
  bool put(std::string_view bytes);

  std::filesystem::path path_;
  Kind kind_;
  Bytes rotate_at_;
  int keep_;
  UniqueFd file_;
  std::int64_t size_ = 0;  // of whole lines
  std::string pending_;    // not yet written
  std::int64_t pending_samples_ = 0, lost_ = 0;
  Nanoseconds last_flush_, rotate_after_;
  bool is_failing_ = false, has_failed_ = false;
  CsvRows csv_;
};

// A whole gzip member (RFC 1952).
std::string gzip(std::string_view bytes);

}  // namespace headroom::watch
