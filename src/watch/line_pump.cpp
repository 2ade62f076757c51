#include "watch/line_pump.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headroom::watch {

Result<bool> LinePump::read_some(const std::function<void(std::string_view line)>& each) {
  // The remaining data is shorter than the longest line, so the buffer always has space.
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const ssize_t got = ::read(fd_, buffer_.data() + end_, buffer_.size() - end_);
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    return input_error("cannot read", errno_text(errno));
  }
  std::size_t look_from = end_;
  end_ += static_cast<std::size_t>(got);
  while (look_from < end_) {
    const void* newline = std::memchr(buffer_.data() + look_from, '\n', end_ - look_from);
    const std::size_t at = newline == nullptr
                               ? end_
                               : static_cast<std::size_t>(static_cast<const char*>(newline) - buffer_.data());
    while (at - begin_ > longest_) {
      each({buffer_.data() + begin_, longest_});
      begin_ += longest_;
    }
    if (newline == nullptr) break;
    each({buffer_.data() + begin_, at - begin_});
    begin_ = look_from = at + 1;
  }
  if (got == 0 && begin_ < end_) {
    each({buffer_.data() + begin_, end_ - begin_});
    begin_ = end_;
  }
  return got > 0;
}

}  // namespace headroom::watch
