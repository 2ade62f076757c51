// A pool's events as lines of a file (event_lines.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/result.h"

namespace headroom::pool {

// Never waits for whoever reads: a line that a pipe has no room for is lost, and counted. Any thread may
// write.
class EventFile {
 public:
  static Result<EventFile> open(const std::string& path);
  EventFile(EventFile&& other) noexcept : fd_(std::move(other.fd_)), lost_(other.lost_.load()) {}
  void write(const std::string& line);
  std::int64_t lost() const { return lost_; }

 private:
  explicit EventFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::atomic<std::int64_t> lost_ = 0;
};

}  // namespace headroom::pool
