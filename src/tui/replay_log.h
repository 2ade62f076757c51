// A log of `headroom watch --jsonl`, a sample at a time: only where its lines begin is kept in memory.
#pragma once

#include <cstdint>
#include <filesystem>
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
  std::size_t size() const { return lines_.size(); }
  // The error names the line.
  Result<SystemSample> read(std::size_t index) const;

 private:
  struct Line {
    std::int64_t begin = 0;
    std::int32_t size = 0;
    std::int64_t number = 0;
  };
  std::filesystem::path path_;
  UniqueFd file_;
  std::vector<Line> lines_;
};

}  // namespace headroom::tui
