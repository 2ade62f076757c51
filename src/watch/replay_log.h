// Reads single samples of a log of `headroom watch --output FILE.jsonl`, also a compressed one. Memory holds
// only the position of one line for each 4 KiB of the file: 6 MB for a gigabyte, for any line length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "types/sample.h"

namespace headroom::watch {

class ReplayLog {
 public:
  // Errors: the file cannot be read, is not a regular file, or contains no sample. An incomplete last line is
  // ignored.
  static Result<ReplayLog> open(const std::filesystem::path& path);
  std::size_t size() const { return size_; }
  bool is_cut() const { return is_cut_; }
  // An error names the line.
  Result<SystemSample> read(std::size_t index) const;

 private:
  struct Line {
    std::int64_t begin = 0, size = 0, number = 1;
  };
  // The lines that begin in one 4 KiB piece of the file.
  struct Block {
    std::int64_t begin = 0, number = 1;  // first line: offset and line number
    std::size_t samples_before = 0;
  };
  // Calls `each` for this line and the following ones, until it returns false. Reads `piece` bytes at a time.
  Status each_line(Line line, std::size_t piece, const std::function<bool(const Line& line)>& each) const;
  static bool may_be_sample(const Line& line);

  std::filesystem::path path_;
  UniqueFd file_;
  std::vector<Block> blocks_;
  std::size_t size_ = 0;
  bool is_cut_ = false;
};

}  // namespace headroom::watch
