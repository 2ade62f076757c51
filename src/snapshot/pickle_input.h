// The bytes of a pickle, a window at a time: of a file, plain or gzip, or of memory. The file is read and not
// mapped, so that one that is cut off while it is read ends early instead of ending the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace headroom::snapshot {

class PickleInput {
 public:
  // A regular file; gzip is told by its first bytes.
  static Result<PickleInput> open(const std::filesystem::path& path);
  // What is in memory, as it is; it must outlive this.
  static PickleInput of(std::string_view bytes);
  PickleInput(PickleInput&&) noexcept;
  PickleInput& operator=(PickleInput&&) noexcept;
  ~PickleInput();

  // What can be read without asking for more.
  const std::uint8_t* at() const { return at_; }
  std::size_t ready() const { return static_cast<std::size_t>(end_ - at_); }
  void skip(std::size_t bytes) { at_ += bytes; }
  // Makes `bytes` ready unless the input ends before; false then. What at() pointed to may have moved.
  bool need(std::size_t bytes) { return ready() >= bytes || refill(bytes); }

  // How many bytes lie before at(), unpacked.
  std::uint64_t offset() const { return window_offset_ + static_cast<std::uint64_t>(at_ - window_begin()); }
  bool is_gzip() const;
  // Why the input ended before its end: it could not be read, its gzip stream is damaged or cut off, or it
  // unpacks to more than any snapshot would.
  const std::optional<Error>& problem() const { return problem_; }
  // Reads what is left of a gzip stream, if that is little, so that its checksum is compared; sets problem().
  void check_end();

 private:
  struct Gzip;
  PickleInput();
  const std::uint8_t* window_begin() const;
  bool refill(std::size_t bytes);
  // Puts more bytes behind the window; 0 at the end or on a problem.
  std::size_t read_more(std::uint8_t* to, std::size_t room);
  std::size_t read_file(std::uint8_t* to, std::size_t room);
  std::size_t inflate_more(std::uint8_t* to, std::size_t room);
  void give_up(std::string why, std::string fix);

  std::string file_;
  UniqueFd fd_;
  std::unique_ptr<Gzip> gzip_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::size_t capacity_ = 0;
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  const std::uint8_t* memory_ = nullptr;  // of of()
  std::uint64_t window_offset_ = 0;       // of the window's first byte
  bool ended_ = false;
  std::optional<Error> problem_;
};

}  // namespace headroom::snapshot
