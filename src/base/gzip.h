// Unpacks gzip data piece by piece, from a file or from memory. Memory use is bounded. Several gzip members
// in a row are one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace headroom {

// The first bytes of every gzip file.
inline constexpr std::string_view kGzipMagic = "\x1f\x8b";

// Whether the file begins like one. Does not move its position; false if it cannot seek.
bool is_gzip(int file);

// Whether so much data from so few bytes is a decompression bomb. Snapshots and logs unpack to 10 to 30 times
// their size, bombs to 1000 times. Sizes up to `always_allowed` are always accepted.
inline constexpr std::uint64_t kMostGzipRatio = 100;
constexpr bool is_bomb(std::uint64_t packed, std::uint64_t plain, std::uint64_t always_allowed = 64 << 20) {
  return plain > always_allowed && plain / kMostGzipRatio > packed;
}

class GzipReader {
 public:
  // Reads the file from its current position, with read(). The caller keeps it open.
  explicit GzipReader(int file);
  // `packed` must outlive this object.
  explicit GzipReader(std::string_view packed);
  GzipReader(GzipReader&&) noexcept;
  GzipReader& operator=(GzipReader&&) noexcept;
  ~GzipReader();

  // Unpacks at most `space` bytes. Returns 0 at the end, and at damage: see state(). Bytes from before the
  // damage are still returned. Fails if the file cannot be read; the error has only `why`.
  Result<std::size_t> read(char* to, std::size_t space);

  enum class State { unpacking, complete, cut_off, damaged };
  // Zeros after a member are padding. Any other data there is damage.
  State state() const { return state_; }
  // So far.
  std::uint64_t packed_bytes() const { return packed_bytes_; }
  std::uint64_t plain_bytes() const { return plain_bytes_; }
  bool is_bomb() const { return headroom::is_bomb(packed_bytes_, plain_bytes_); }

 private:
  struct Stream;
  Status fill();

  std::unique_ptr<Stream> stream_;
  int file_ = -1;
  bool in_member_ = true;  // between a header and its checksum
  State state_ = State::unpacking;
  std::uint64_t packed_bytes_ = 0, plain_bytes_ = 0;
};

}  // namespace headroom
