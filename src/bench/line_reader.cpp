#include "bench/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/log.h"
#include "base/units.h"

namespace headroom::bench {
namespace {
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
}

LineReader::LineReader(UniqueFd fd) : fd_(std::move(fd)) { ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK); }

void LineReader::read_available(const std::function<void(std::string_view)>& each) {
  std::array<char, 65536> buffer;
  while (fd_) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      if (!partial_.empty()) each(partial_);
      partial_.clear();
      fd_.reset();
      return;
    }
    partial_.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t start = 0;
    for (std::size_t end = 0; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1)
      each(std::string_view(partial_).substr(start, end - start));
    partial_.erase(0, start);
    if (partial_.size() <= kLongestLine) continue;
    log::warning("dropped a line of more than {} from a child process",
                 format_bytes({std::int64_t{kLongestLine}}));
    partial_.clear();
  }
}

}  // namespace headroom::bench
