// Reads lines of a file or pipe of any size in bounded memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace headroom::watch {

// Reads into one buffer of four times the longest line. Longer lines are split into pieces of that length.
class LinePump {
 public:
  static constexpr std::size_t kLongestLine = 64 << 10;

  explicit LinePump(int fd, std::size_t longest = kLongestLine)
      : fd_(fd), longest_(longest), buffer_(4 * longest) {}
  // Reads once, as much as is available, and calls `each` for every complete line. At the end of the file
  // it also passes a last line without a newline, and returns false. The descriptor may be non-blocking.
  Result<bool> read_some(const std::function<void(std::string_view line)>& each);

 private:
  int fd_;
  std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // range of the data that was read but not passed on
};

}  // namespace headroom::watch
