#include "media/streams/stream_input.h"

#include <limits.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace headroom::media {
namespace {

constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;

// Removes the first `bytes` of the parts that begin at `first`. Returns the first part with bytes left.
std::size_t advance(std::vector<iovec>& parts, std::size_t first, std::size_t bytes) {
  while (first < parts.size() && bytes >= parts[first].iov_len) bytes -= parts[first++].iov_len;
  if (first < parts.size()) {
    parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + bytes;
    parts[first].iov_len -= bytes;
  }
  return first;
}

}  // namespace

bool StreamInput::wait_until(Until until) {
  const Nanoseconds began = monotonic_now();
  for (;;) {
    const bool wants_size = until == Until::frame_size;
    if (wants_size && (tool_->messages().frame_size() || tool_->messages_fd() < 0)) return true;
    // A negative descriptor is not polled.
    std::array<pollfd, 2> polled{
        {{wants_size ? -1 : fd(), POLLIN, 0}, {tool_ ? tool_->messages_fd() : -1, POLLIN, 0}}};
    int timeout = -1;
    if (stall_time_) {
      const std::int64_t left = (began + *stall_time_ - monotonic_now()).count;
      if (left <= 0) return false;
      timeout = static_cast<int>(std::min<std::int64_t>(left / kNanosecondsPerMillisecond + 1, INT_MAX));
    }
    if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) return true;
    if (tool_ && polled[1].revents != 0) tool_->read_messages();
    if (polled[0].revents != 0) return true;
  }
}

StreamInput::Progress StreamInput::fill(std::vector<iovec>& parts) {
  Progress progress;
  for (std::size_t first = advance(parts, 0, 0); first < parts.size();) {
    if (!wait()) {
      progress.has_stalled = true;
      return progress;
    }
    const std::size_t count = std::min<std::size_t>(parts.size() - first, IOV_MAX);
    const ssize_t got = ::readv(fd(), &parts[first], static_cast<int>(count));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) progress.error = errno;
    if (got <= 0) return progress;
    progress.bytes += static_cast<std::size_t>(got);
    first = advance(parts, first, static_cast<std::size_t>(got));
  }
  return progress;
}

}  // namespace headroom::media
