#include "base/gzip.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

namespace headroom {

bool is_gzip(int file) {
  char begin[kGzipMagic.size()];
  return ::pread(file, begin, sizeof begin, 0) == ssize_t{sizeof begin} &&
         std::string_view(begin, sizeof begin) == kGzipMagic;
}

struct GzipReader::Stream {
  z_stream z{};
  std::array<unsigned char, 256 << 10> packed;

  Stream() {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&z, kGzipOnly + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::inflateEnd(&z); }
};

GzipReader::GzipReader(int file) : stream_(std::make_unique<Stream>()), file_(file) {}

GzipReader::GzipReader(std::string_view packed)
    : stream_(std::make_unique<Stream>()), packed_bytes_(packed.size()) {
  stream_->z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream_->z.avail_in = static_cast<uInt>(packed.size());
}

GzipReader::GzipReader(GzipReader&&) noexcept = default;
GzipReader& GzipReader::operator=(GzipReader&&) noexcept = default;
GzipReader::~GzipReader() = default;

// Reads more packed bytes; sets state_ at the end of the input.
Status GzipReader::fill() {
  ssize_t got = 0;
  do {
    if (file_ >= 0) got = ::read(file_, stream_->packed.data(), stream_->packed.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return input_error("", errno_text(errno));
  if (got == 0) state_ = in_member_ ? State::cut_off : State::complete;
  packed_bytes_ += static_cast<std::uint64_t>(got);
  stream_->z.next_in = stream_->packed.data();
  stream_->z.avail_in = static_cast<uInt>(got);
  return {};
}

// gzread is not usable for damaged files: it drops unpacked data when it finds an error.
Result<std::size_t> GzipReader::read(char* to, std::size_t space) {
  z_stream& z = stream_->z;
  z.next_out = reinterpret_cast<Bytef*>(to);
  z.avail_out = static_cast<uInt>(std::min<std::size_t>(space, 1 << 30));
  const uInt wanted = z.avail_out;
  while (state_ == State::unpacking && z.avail_out == wanted) {
    if (z.avail_in == 0)
      if (auto filled = fill(); !filled) return forward_error(filled);
    if (z.avail_in == 0) break;
    if (!in_member_ && *z.next_in != static_cast<unsigned char>(kGzipMagic[0])) {
      state_ = *z.next_in == 0 ? State::complete : State::damaged;
      break;
    }
    if (!in_member_) ::inflateReset(&z);
    const int code = ::inflate(&z, Z_NO_FLUSH);
    in_member_ = code != Z_STREAM_END;
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) state_ = State::damaged;
  }
  plain_bytes_ += wanted - z.avail_out;
  return wanted - z.avail_out;
}

}  // namespace headroom
