// Files: descriptors that close themselves, bounded reads of whole files, and atomic writes (by rename).
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

// Reads the whole file. Errors: missing, unreadable, a directory, or larger than `limit`.
Result<std::string> read_file(const std::filesystem::path& path, Bytes limit = gibibytes(1));

// Whether the file contains this text. Reads in pieces; returns false if the file cannot be read.
bool file_contains(const std::filesystem::path& path, std::string_view text);

// Reads a file of /proc or /sys (stat reports size 0 for these). A missing or unreadable file gives an error
// without a fix; callers treat it as "absent".
Result<std::string> read_small_file(const std::filesystem::path& path);

// Writes `path` as `path.tmp-PID`, flushes it to disk and renames it, so readers see either the old file or
// the complete new one. On any error the temporary file is removed.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same for content that is too large for memory: `give` passes it to `write` piece by piece.
using WritePiece = std::function<Status(std::string_view piece)>;
Status write_file_in_pieces(const std::filesystem::path& path,
                            const std::function<Status(const WritePiece& write)>& give);

// Writes all bytes, retrying on EINTR and short writes.
Status write_all(int fd, std::string_view bytes);

// mkdir -p.
Status make_folder(const std::filesystem::path& path);

// The path of the running executable, even if it was renamed. Child processes are started from it.
std::filesystem::path own_executable();
// The folder of the running executable.
std::filesystem::path executable_folder();

// Folders that are searched for plug-ins, in order: those in HEADROOM_BACKEND_PATH (separated by colons), the
// executable's folder, and ../lib/headroom as in an installation.
std::vector<std::filesystem::path> plugin_folders();

// Fingerprint of a file's content, to detect changes: 64-bit FNV-1a as 16 hex digits; not cryptographic.
// `on_piece` is called with each 64 KiB. Errors: missing, unreadable, or not a regular file. A FIFO or a
// device is never opened, because that could block for ever.
Result<std::string> file_fingerprint(const std::filesystem::path& path,
                                     const std::function<void(std::string_view)>& on_piece = {});

}  // namespace headroom
