#include "watch/open_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

namespace headroom::watch {
namespace {

bool is_gzip(int file) {
  char begin[2];
  return ::pread(file, begin, sizeof begin, 0) == 2 && begin[0] == '\x1f' && begin[1] == '\x8b';
}

// An unnamed file, which disappears when it is closed.
UniqueFd temporary_file() {
  std::error_code code;
  const auto folder = std::filesystem::temp_directory_path(code);
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string name = (folder / "headroom-XXXXXX").string();  // the file system does not support O_TMPFILE
  file.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

// Half of the file system's free space: other programs need some, too.
std::int64_t half_of_free_space(int file) {
  struct statvfs stats {};
  if (::fstatvfs(file, &stats) != 0) return 0;
  return static_cast<std::int64_t>(stats.f_bavail * stats.f_frsize / 2);
}

// gzread is not usable for damaged files: it drops unpacked data when it finds an error.
Result<OpenedLog> unpacked(int packed, const std::filesystem::path& path, Bytes most) {
  const std::string what = fmt::format("cannot unpack {}", path.string());
  OpenedLog plain{temporary_file()};
  if (!plain.file)
    return failure(what, errno_text(errno),
                   "set TMPDIR to a folder with free space, or unpack it with gunzip --keep");
  const std::int64_t limit = std::min(most.count, half_of_free_space(plain.file.get()));
  z_stream stream{};
  if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return internal_error(what, "out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end_of_stream(&stream, ::inflateEnd);
  std::vector<unsigned char> input(256 << 10), output(256 << 10);
  std::int64_t size = 0;
  for (std::int64_t offset = 0; !plain.is_damaged;) {
    const ssize_t got = ::pread(packed, input.data(), input.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_error(fmt::format("cannot read {}", path.string()), errno_text(errno));
    if (got == 0) break;
    offset += got;
    stream.next_in = input.data();
    stream.avail_in = static_cast<unsigned>(got);
    do {
      stream.next_out = output.data();
      stream.avail_out = static_cast<unsigned>(output.size());
      const unsigned input_left = stream.avail_in;
      const int result = ::inflate(&stream, Z_NO_FLUSH);
      const std::size_t more = output.size() - stream.avail_out;
      size += static_cast<std::int64_t>(more);
      if (size > most.count)
        return failure(what, fmt::format("it unpacks to more than {}", format_bytes(most)),
                       "unpack it with gunzip --keep and pass the unpacked file");
      if (size > limit)
        return failure(what,
                       fmt::format("it needs more than half of the free space in the temporary folder, "
                                   "which is {}",
                                   format_bytes({limit})),
                       "set TMPDIR to a folder with more free space, or unpack it with gunzip --keep");
      if (auto written = write_all(plain.file.get(), {reinterpret_cast<const char*>(output.data()), more});
          !written)
        return failure(what, written.error().why, "set TMPDIR to a folder with free space");
      const bool made_progress = more > 0 || stream.avail_in < input_left;
      if (result == Z_STREAM_END)
        plain.is_cut = false;
      else if (made_progress)
        plain.is_cut = true;
      if (result == Z_STREAM_END) ::inflateReset(&stream);
      // Z_BUF_ERROR: inflate needs more input.
      plain.is_damaged = result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR;
    } while (!plain.is_damaged && (stream.avail_in > 0 || stream.avail_out == 0));
  }
  if (::lseek(plain.file.get(), 0, SEEK_SET) != 0) return internal_error(what, errno_text(errno));
  return plain;
}

}  // namespace

Result<OpenedLog> open_log(const std::filesystem::path& path, const std::string& fix, Bytes most_unpacked) {
  // O_NONBLOCK: the caller waits for the writer of a FIFO.
  OpenedLog log{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!log.file) return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno), fix);
  if (is_gzip(log.file.get())) return unpacked(log.file.get(), path, most_unpacked);
  return log;
}

}  // namespace headroom::watch
