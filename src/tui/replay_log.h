// A log of `headroom watch --output FILE.jsonl`, a sample at a time. In memory is only where a line begins in
// each 4 KiB of it: 6 MB for a gigabyte, whatever its lines are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "model/sample.h"

namespace headroom::tui {

class ReplayLog {
 public:
  // Errors: it cannot be read, is no regular file, or no line of it is a sample. A last line that was cut is
  // left out.
  static Result<ReplayLog> open(const std::filesystem::path& path);
  std::size_t size() const { return size_; }
  bool is_cut() const { return is_cut_; }
  // The error names the line.
  Result<SystemSample> read(std::size_t index) const;

 private:
  struct Line {
    std::int64_t begin = 0, size = 0, number = 1;
  };
  // Lines that begin in one piece of the file.
  struct Block {
    std::int64_t begin = 0, number = 1;  // of its first line
    std::size_t samples_before = 0;
  };
  // From this line on, until `each` is false. Reads that many bytes at once.
  Status each_line(Line line, std::size_t piece, const std::function<bool(const Line& line)>& each) const;
  static bool may_be_sample(const Line& line);

  std::filesystem::path path_;
  UniqueFd file_;
  std::vector<Block> blocks_;
  std::size_t size_ = 0;
  bool is_cut_ = false;
};

}  // namespace headroom::tui
