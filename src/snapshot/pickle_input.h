// Reads the bytes of a pickle through a window, from a file (plain or gzip) or from memory. The file is read,
// not mapped, so that truncation during reading ends the input early instead of crashing the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/gzip.h"
#include "base/result.h"

namespace headroom::snapshot {

class PickleInput {
 public:
  // Opens a regular file. gzip is recognized by its first bytes.
  static Result<PickleInput> open(const std::filesystem::path& path);
  // Reads from memory. `bytes` must outlive this object.
  static PickleInput of(std::string_view bytes);

  // The bytes that can be read without a refill.
  const std::uint8_t* at() const { return at_; }
  std::size_t ready() const { return static_cast<std::size_t>(end_ - at_); }
  void skip(std::size_t bytes) { at_ += bytes; }
  // Makes `bytes` bytes available. Returns false if the input ends before. Pointers from at() become invalid.
  bool need(std::size_t bytes) { return ready() >= bytes || refill(bytes); }

  // The number of unpacked bytes before at().
  std::uint64_t offset() const { return window_offset_ + static_cast<std::uint64_t>(at_ - window_begin()); }
  bool is_gzip() const { return gzip_.has_value(); }
  // Why the input ended early: a read error, a damaged or truncated gzip stream, or a stream that unpacks to
  // more than any snapshot would.
  const std::optional<Error>& problem() const { return problem_; }
  // Reads the rest of a gzip stream, if it is short, so that its checksum is verified. May set problem().
  void check_end();

 private:
  PickleInput() = default;
  const std::uint8_t* window_begin() const { return buffer_ ? buffer_.get() : memory_; }
  bool refill(std::size_t bytes);
  // Appends bytes to the window. Returns 0 at the end or after a problem.
  std::size_t read_more(std::uint8_t* to, std::size_t space);
  void give_up(std::string why, std::string fix);

  std::string file_;
  UniqueFd fd_;
  std::optional<GzipReader> gzip_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::size_t capacity_ = 0;
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  const std::uint8_t* memory_ = nullptr;  // set by of()
  std::uint64_t window_offset_ = 0;       // of the window's first byte
  bool ended_ = false;
  std::optional<Error> problem_;
};

// True if these (unpacked) first bytes may belong to a pickle and to no other known format.
bool looks_like_pickle(std::string_view first_bytes);

}  // namespace headroom::snapshot
