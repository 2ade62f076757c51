// The masks that a worker predicted, for the process that scores them: a file of lines of whole numbers, one
// line per mask: video frame object width height run run … (append_runs). Video and object are indices of the
// file of prepared videos. So the measured process neither loads image libraries nor reads ground truth.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "types/vos.h"

namespace headroom::bench {

class MaskWriter {
 public:
  static Result<MaskWriter> create(const std::filesystem::path& path);
  // Adds a line. Its memory grows only with the longest line.
  Status add(std::size_t video, std::int64_t frame, std::size_t object, const BinaryMask& mask);

 private:
  explicit MaskWriter(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
  std::vector<std::int64_t> runs_;
  std::string line_;
};

struct MaskLine {
  std::size_t video = 0, object = 0;
  std::int64_t frame = 0;
  BinaryMask mask{};
};

// The next mask; absent at the end, and at a line that was cut short.
std::optional<MaskLine> read_mask_line(std::istream& lines);

}  // namespace headroom::bench
