#include "bench/conductor/kept_frames.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/text.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kInMemory = 2048;  // frames, 112 KiB
constexpr std::size_t kPiece = 256;
static_assert(std::is_trivially_copyable_v<FrameTimes> && sizeof(FrameTimes) == 56);

// A file without a name. The kernel removes it when its last descriptor closes.
UniqueFd open_unnamed(const std::filesystem::path& folder) {
#ifdef O_TMPFILE
  if (UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)); file) return file;
#endif
  std::string name = (folder / "frames.XXXXXX").string();  // for NFS and others without O_TMPFILE
  UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

bool write_at(int fd, const char* bytes, std::size_t size, std::size_t offset) {
  while (size > 0) {
    const ssize_t written = ::pwrite(fd, bytes, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written, offset += static_cast<std::size_t>(written), size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool read_at(int fd, char* bytes, std::size_t size, std::size_t offset) {
  while (size > 0) {
    const ssize_t got = ::pread(fd, bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got, offset += static_cast<std::size_t>(got), size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

void KeptFrames::add(const FrameTimes& frame) {
  const bool has_file = !folder_.empty() && problem_.empty();
  if (has_file && recent_.size() >= kInMemory) move_to_file();
  recent_.push_back(frame);
}

void KeptFrames::move_to_file() {
  if (!file_) file_ = open_unnamed(folder_);
  const bool moved = file_ && write_at(file_.get(), reinterpret_cast<const char*>(recent_.data()),
                                       recent_.size() * sizeof(FrameTimes), in_file_ * sizeof(FrameTimes));
  if (!moved) {
    problem_ = fmt::format("frame times stay in memory: cannot write a file in {}: {}", folder_.string(),
                           errno_text(errno));
    return;
  }
  in_file_ += recent_.size();
  recent_.clear();
}

std::size_t KeptFrames::read(std::size_t first, std::span<FrameTimes> buffer) const {
  std::size_t got = 0;
  if (first < in_file_) {
    got = std::min(buffer.size(), in_file_ - first);
    if (!read_at(file_.get(), reinterpret_cast<char*>(buffer.data()), got * sizeof(FrameTimes),
                 first * sizeof(FrameTimes))) {
      problem_ = fmt::format("some frames are missing from the figures: cannot read their times: {}",
                             errno_text(errno));
      return 0;
    }
  }
  const std::size_t start = first + got - in_file_;  // index in recent_
  if (first + got < in_file_ || start >= recent_.size()) return got;
  const std::size_t more = std::min(buffer.size() - got, recent_.size() - start);
  std::copy_n(recent_.begin() + static_cast<std::ptrdiff_t>(start), more,
              buffer.begin() + static_cast<std::ptrdiff_t>(got));
  return got + more;
}

void KeptFrames::each(const std::function<void(std::span<const FrameTimes>)>& piece) const {
  std::array<FrameTimes, kPiece> frames;
  std::size_t done = 0;
  for (std::size_t got = 0; (got = read(done, frames)) > 0; done += got) piece(std::span(frames).first(got));
}

}  // namespace headroom::bench
