#include "exporters/gzip_stream.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

namespace headroom::exporters {

struct GzipStream::State {
  z_stream stream{};
};

GzipStream::GzipStream(OutputSink& sink) : state_(std::make_unique<State>()), sink_(sink) {
  constexpr int kLargestWindow = 15, kGzipHeader = 16, kDefaultMemory = 8;
  // With fixed parameters this fails only if memory is short.
  if (deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kLargestWindow + kGzipHeader,
                   kDefaultMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
}

GzipStream::GzipStream(GzipStream&&) noexcept = default;

GzipStream::~GzipStream() {
  if (state_) deflateEnd(&state_->stream);
}

void GzipStream::write(std::string_view bytes) {
  constexpr std::size_t kMost =
      std::numeric_limits<uInt>::max();  // zlib stores the remaining length in an unsigned int
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kMost, bytes.size())))
    deflate(bytes.substr(0, kMost), Z_NO_FLUSH);
}

void GzipStream::finish() { deflate({}, Z_FINISH); }

void GzipStream::deflate(std::string_view bytes, int flush) {
  z_stream& stream = state_->stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib does not modify it
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::array<char, 32768> buffer;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    ::deflate(&stream, flush);
    sink_.write({buffer.data(), buffer.size() - stream.avail_out});
  } while (stream.avail_out == 0);
}

}  // namespace headroom::exporters
