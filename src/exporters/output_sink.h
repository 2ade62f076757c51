// Where an export goes: a file that appears by rename when it is whole, or standard output. Writes are
// buffered and never fail by themselves; finish() says what became of all of them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace headroom::exporters {

class OutputSink {
 public:
  // "-" is standard output. What is there already and is no regular file (a pipe, /dev/null, a symbolic link)
  // is written to in place.
  static Result<OutputSink> open(const std::filesystem::path& path);
  OutputSink(OutputSink&&) = default;
  OutputSink& operator=(OutputSink&&) = delete;
  ~OutputSink();  // without finish(): nothing appears

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

  // Flushes it to disk and gives it its name.
  Status finish();

 private:
  static constexpr std::size_t kFlushAt = 256 << 10;
  OutputSink() = default;
  void flush();

  fmt::memory_buffer buffer_;
  std::uint64_t flushed_ = 0;
  UniqueFd file_;  // none: standard output
  std::filesystem::path path_, temporary_;
  Status status_;
};

}  // namespace headroom::exporters
