// Writes a pool's events to a file, one JSON line each (event_lines.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/result.h"

namespace headroom::pool {

// Never blocks on a slow reader: if a pipe is full or has no reader, the line is lost and counted. Any thread
// may write.
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
