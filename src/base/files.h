// Files: descriptors that close themselves, bounded reads of whole files, and atomic writes (by rename).
#pragma once

#include <fmt/format.h>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
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

// Reads the whole file or pipe. Errors: missing, unreadable, a folder, a device, or larger than `limit`.
// Files that report no size (/proc) are read up to 16 MiB.
Result<std::string> read_file(const std::filesystem::path& path, Bytes limit = gibibytes(1));

// Opens a file or a pipe (`<(command)`) for reading. A FIFO that no process writes to is empty: waiting for a
// writer could take for ever. Rejects folders and devices.
Result<UniqueFd> open_file_or_pipe(const std::filesystem::path& path);

// Opens a regular file for reading. Rejects others without waiting: opening a FIFO or a device could block.
// `fix` is for both errors.
Result<UniqueFd> open_regular_file(const std::filesystem::path& path, std::string fix = {});

// Reads a descriptor to its end; `name` is for errors. Reserves `expected` bytes first, because growing in
// steps would leave freed buffers on the heap.
Result<std::string> read_descriptor(int fd, const std::string& name, Bytes limit = gibibytes(1),
                                    std::int64_t expected = 0);

// Whether the file contains this text. Reads in pieces; returns false if the file cannot be read.
bool file_contains(const std::filesystem::path& path, std::string_view text);

// Reads a file of /proc or /sys. Callers treat an error as "absent".
Result<std::string> read_small_file(const std::filesystem::path& path);

// Readers see either the old file or the complete new one (base/unfinished.h). An error leaves the old one.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same for content that is too large for memory: `give` passes it to `write` piece by piece.
using WritePiece = std::function<Status(std::string_view piece)>;
Status write_file_in_pieces(const std::filesystem::path& path,
                            const std::function<Status(const WritePiece& write)>& give);

// Writes all bytes, retrying on EINTR and short writes.
Status write_all(int fd, std::string_view bytes);
// Writes the content of a file. std::filesystem::copy_file() reports a full disk as an input/output error.
Status write_copy(int fd, const std::filesystem::path& from);

// mkdir -p.
Status make_folder(const std::filesystem::path& path);

// The path of the running executable, even if it was renamed. Child processes are started from it.
std::filesystem::path own_executable();
// The folder of the running executable.
std::filesystem::path executable_folder();
// The file that this code is part of: the executable, or a shared library.
std::filesystem::path own_file();

// Folders that are searched for plug-ins, preload libraries and helper programs, in order
// (docs/how-to-add-a-backend.md tells users):
// 1. those in HEADROOM_BACKEND_PATH, separated by colons
// 2. ../lib/headroom, seen from the folder of own_file(): an installation's, for bin/headroom and for
//    lib/libheadroom_model_pool.so
// 3. the folder of own_file(): a build folder, or lib/headroom itself
// 4. ~/.local/lib/headroom and /usr/lib/headroom, where `headroom build-plugin` installs. They come last, so
//    that a plug-in of another version does not precede this installation's.
std::vector<std::filesystem::path> plugin_folders();
// The same as text for errors, separated by commas.
std::string plugin_folders_text();
// The first file of this name in plugin_folders().
std::optional<std::filesystem::path> find_plugin(std::string_view file_name);
// Loads a plug-in and returns its function of this name. The library is never closed, because libraries leave
// threads and exit handlers behind. `fix`: the cure if it cannot be loaded.
Result<void*> load_plugin(const std::filesystem::path& file, const char* function, std::string fix);

// Fingerprint of a file's content, to detect changes: 64-bit FNV-1a as 16 hex digits; not cryptographic.
// `on_piece` is called with each 64 KiB. Errors: missing, unreadable, or not a regular file. A FIFO or a
// device is never opened, because that could block for ever.
Result<std::string> file_fingerprint(const std::filesystem::path& path,
                                     const std::function<void(std::string_view)>& on_piece = {});

// 64-bit FNV-1a (Fowler, Noll and Vo): a fingerprint, not a cryptographic hash. Use it only where an attacker
// gains nothing from a collision. Among a million inputs, one collides by chance with probability 1 in
// 37 million (n² / 2 / 2⁶⁴).
class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

inline std::string fingerprint_of(std::string_view bytes) {
  Fnv1a hash;
  hash.add(bytes);
  return hash.text();
}

// The folder of one run, outputs/YYYY-MM-DD_HH-MM-SS/. An earlier run is never overwritten.
struct RunFolder {
  std::string name;  // "2026-11-21_10-30-00"; "-2", "-3", … is added if that second is taken
  std::filesystem::path path;
  std::string started_at;  // when the folder was created (timestamp_now())
};

// Creates the folder. A failure is an input error (exit 2), because nothing has been measured yet.
Result<RunFolder> create_run_folder(const std::filesystem::path& output_dir);

// A model's name as a file name: everything but letters, digits, '.', '-' and '_' becomes '_'. An empty name,
// and one that starts with '.', gets a '_' in front.
std::string file_name_of(const std::string& model);

}  // namespace headroom
