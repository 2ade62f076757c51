// Reads lines from a pipe as they arrive.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace headroom::bench {

class LineReader {
 public:
  LineReader() = default;
  explicit LineReader(UniqueFd fd);
  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  // Reads the available data without waiting and calls `each` for every complete line. At the end of the
  // stream, a last line without a newline counts, too, and the descriptor is closed. Lines over 64 MiB are
  // dropped.
  void read_available(const std::function<void(std::string_view)>& each);

 private:
  UniqueFd fd_;
  std::string partial_;
};

}  // namespace headroom::bench
