// The output of an export: a file that appears by rename when it is complete, or standard output. Writes are
// buffered and report no errors; finish() reports them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/unfinished.h"

namespace headroom::exporters {

class OutputSink {
 public:
  // "-" is standard output. An existing path that is not a regular file (a pipe, /dev/null, a symbolic link)
  // is written in place.
  static Result<OutputSink> open(const std::filesystem::path& path);
  OutputSink(OutputSink&&) = default;
  OutputSink& operator=(OutputSink&&) = delete;

  void write(std::string_view bytes) {
    buffer_.append(bytes);
    if (buffer_.size() >= kFlushAt) flush();
  }
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(fmt::appender(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() >= kFlushAt) flush();
  }
  std::uint64_t bytes() const { return flushed_ + buffer_.size(); }

  // Flushes the file to disk and renames it. Without it no file appears.
  Status finish();

 private:
  static constexpr std::size_t kFlushAt = 256 << 10;
  OutputSink() = default;
  void flush();

  fmt::memory_buffer buffer_;
  std::uint64_t flushed_ = 0;
  std::filesystem::path path_;
  std::optional<UnfinishedFile> unfinished_;
  UniqueFd in_place_;
  int fd_ = -1;  // of one of these two; -1: standard output
  Status status_;
};

}  // namespace headroom::exporters
