// Lines of a file or pipe of any size, in bounded memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace headroom::watch {

// Reads in pieces of four times the longest line into one buffer. Longer lines are given in pieces of that
// length.
class LinePump {
 public:
  static constexpr std::size_t kLongestLine = 64 << 10;

  explicit LinePump(int fd, std::size_t longest = kLongestLine)
      : fd_(fd), longest_(longest), buffer_(4 * longest) {}
  // Reads once, as much as is there, and calls `each` for every whole line; at the end of the file also for a
  // last line without a newline. False at the end. The descriptor may be one that does not block.
  Result<bool> read_some(const std::function<void(std::string_view line)>& each);

 private:
  int fd_;
  std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what was read and not given out
};

}  // namespace headroom::watch
