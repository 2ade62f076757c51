// Files: descriptors that close themselves, whole-file reads with a bound, and writes that appear by rename
// when they are whole.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom {

// Owns a file descriptor; -1 means none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// The whole file as text. Errors: absent, unreadable, a directory, or larger than `limit`.
Result<std::string> read_file(const std::filesystem::path& path, Bytes limit = gibibytes(1));

// Whether the file holds this text; read in pieces. False if it cannot be read.
bool file_holds(const std::filesystem::path& path, std::string_view text);

// Reads a file of /proc or /sys (their stat size is 0). Missing or unreadable gives an empty optional-like
// error without a fix; callers treat it as "absent".
Result<std::string> read_small_file(const std::filesystem::path& path);

// Writes `path` as `path.tmp-PID`, flushes it to disk and renames it, so readers see the old file or the new
// one whole. On any error the temporary file is removed.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same of content too large for memory: `give` hands it to `write` piece by piece.
using WritePiece = std::function<Status(std::string_view piece)>;
Status write_file_in_pieces(const std::filesystem::path& path,
                            const std::function<Status(const WritePiece& write)>& give);

// Writes all bytes, retrying on EINTR and short writes.
Status write_all(int fd, std::string_view bytes);

// mkdir -p.
Status make_folder(const std::filesystem::path& path);

// The running executable, whatever it was renamed to: children are started from it.
std::filesystem::path own_executable();
// The folder that holds it.
std::filesystem::path executable_folder();

// Where plug-ins are looked for, the first wins: the folders of HEADROOM_BACKEND_PATH (separated by colons),
// the executable's own, and lib/headroom beside it as an installation has it.
std::vector<std::filesystem::path> plugin_folders();

// Fingerprint of a file's content (64-bit FNV-1a of its bytes, as 16 hex digits): tells whether a file
// changed; not cryptographic. `on_piece` is called with each 64 KiB. Errors: absent, unreadable, or no
// regular file; a FIFO or a device is not opened, which could block for ever.
Result<std::string> file_fingerprint(const std::filesystem::path& path,
                                     const std::function<void(std::string_view)>& on_piece = {});

}  // namespace headroom
