// Opens a log of `headroom watch`, compressed or not, for reading.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "types/sample.h"

namespace headroom::watch {

struct OpenedLog {
  UniqueFd file;  // at its beginning; for a compressed log an unnamed file with the unpacked content
  bool is_damaged = false;  // the rest of the file could not be unpacked
  bool is_cut = false;      // the end of a compressed log is missing
};

// The fix for a file that is not such a log.
inline constexpr const char* kFixOwnLog = "pass a log written by headroom watch --output FILE.jsonl";

// The largest unpacked size: samples of 1.2 KB each second for 41 days. A small file of zeros can unpack to
// thousands of times its size, and the temporary folder may be in memory (a tmpfs).
inline constexpr Bytes kMostUnpacked = gibibytes(4);

// Opens FILE.jsonl, or FILE.jsonl.gz with concatenated gzip members. Drops an incomplete end, which a killed
// watch leaves, and keeps everything before damage. A file that cannot seek is not unpacked.
//
// Fails if the file cannot be opened (with `fix` as the hint). Fails if the unpacked content exceeds
// `most_unpacked`, or half of the free space of the temporary folder.
Result<OpenedLog> open_log(const std::filesystem::path& path, const std::string& fix,
                           Bytes most_unpacked = kMostUnpacked);

// Reads single samples of a log of `headroom watch --output FILE.jsonl`, also a compressed one. Memory holds
// only the positions of the lines: 10 MB for a gigabyte of usual lines, and at most 256 MiB.
class ReplayLog {
 public:
  // Errors: the file cannot be read, is not a regular file, or contains no sample. An incomplete last line is
  // ignored.
  static Result<ReplayLog> open(const std::filesystem::path& path);
  std::size_t size() const { return samples_.size(); }
  bool is_cut() const { return is_cut_; }
  // An error names the line.
  Result<SystemSample> read(std::size_t index) const;

 private:
  struct Line {
    std::int64_t begin = 0;
    std::uint32_t size = 0, number = 1;
  };
  Status find_samples();

  std::filesystem::path path_;
  UniqueFd file_;
  std::deque<Line> samples_;  // a vector needs three times their memory while it grows
  bool is_cut_ = false;
};

}  // namespace headroom::watch
