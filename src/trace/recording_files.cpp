#include "trace/recording_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "base/files.h"
#include "base/text.h"
#include "trace/output_file.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

using recording::SegmentHeader;

constexpr std::uint64_t kPage = 4096;

// Reads a struct from the file; null if the file ends before it does.
template <class Struct>
std::unique_ptr<Struct> read_struct(int fd, std::uint64_t offset) {
  auto content = std::make_unique<Struct>();
  const ssize_t got =
      ::pread(fd, static_cast<void*>(content.get()), sizeof(Struct), static_cast<off_t>(offset));
  if (got != static_cast<ssize_t>(sizeof(Struct))) return nullptr;
  return content;
}

void make_hole(int fd, std::uint64_t begin, std::uint64_t end) {
  begin = (begin + kPage - 1) / kPage * kPage;
  if (begin < end)
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin));
}

}  // namespace

std::unique_ptr<recording::FileHeader> read_header(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto header = fd ? read_struct<recording::FileHeader>(fd.get(), 0) : nullptr;
  if (header != nullptr && std::memcmp(header->magic, recording::kMagic, sizeof recording::kMagic) != 0)
    return nullptr;
  return header;
}

std::vector<RecordingFile> find_recordings(const fs::path& root) {
  std::vector<RecordingFile> others;
  std::error_code code;
  for (fs::directory_iterator entry(tree_folder(root), code), end; !code && entry != end;
       entry.increment(code))
    if (entry->path().extension() == ".hrec") others.push_back({entry->path()});
  std::sort(others.begin(), others.end(), [](const RecordingFile& a, const RecordingFile& b) {
    return natural_less(a.path.filename().string(), b.path.filename().string());
  });
  if (fs::exists(root, code)) others.insert(others.begin(), {root});
  return others;
}

std::uint64_t disk_bytes_of(const fs::path& recording) {
  constexpr std::uint64_t kBlock = 512;
  struct stat info {};
  return ::stat(recording.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * kBlock : 0;
}

void compact_recording(const fs::path& recording) {
  const auto header = read_header(recording);
  const UniqueFd fd(::open(recording.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!fd || header == nullptr || header->version != recording::kVersion || ::fstat(fd.get(), &info) != 0)
    return;
  const std::uint64_t segment_bytes = header->segment_bytes;
  const std::uint64_t begin = std::uint64_t{header->header_bytes} + header->metadata_bytes;
  const std::uint64_t slots = std::min<std::uint64_t>(header->segments_claimed, header->segments_limit);
  if (segment_bytes < kPage || slots > static_cast<std::uint64_t>(info.st_size) / kPage) return;

  make_hole(fd.get(),
            header->header_bytes + std::min<std::uint64_t>(header->metadata_used, header->metadata_bytes),
            begin);
  std::uint64_t end = begin;
  for (std::uint64_t slot = 0; slot < slots; ++slot) {
    const std::uint64_t at = begin + slot * segment_bytes;
    const auto segment = read_struct<SegmentHeader>(fd.get(), at);
    if (segment == nullptr) break;  // claimed, but the process ended before the file reached it
    const std::uint64_t used = sizeof(SegmentHeader) + segment->committed;
    if (segment->magic != recording::kSegmentMagic || used > segment_bytes) {
      end = at + segment_bytes;  // damaged: keep its bytes for inspection
      continue;
    }
    end = at + used;
    if (slot + 1 < slots) make_hole(fd.get(), end, at + segment_bytes);
  }
  if (end >= static_cast<std::uint64_t>(info.st_size)) return;
  // Write the new size before truncating: a crash in between leaves a file that is longer than its header
  // states.
  if (::pwrite(fd.get(), &end, sizeof end, offsetof(recording::FileHeader, file_bytes)) == sizeof end)
    ::ftruncate(fd.get(), static_cast<off_t>(end));
}

}  // namespace headroom::trace
