#include "exporters/encoders.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "base/json.h"

namespace headroom::exporters {

std::string valid_utf8(std::string_view text) {
  const auto repaired = parse_json(to_line(Json(std::string(text))));
  return repaired ? repaired->get<std::string>() : std::string();
}

PickleWriter::PickleWriter(OutputSink& sink) : sink_(sink) { sink_.write("\x80\x02"); }

void PickleWriter::bytes(std::uint64_t value, int count) {
  char out[8];
  for (int i = 0; i < count; ++i) out[i] = static_cast<char>(value >> 8 * i);
  sink_.write({out, static_cast<std::size_t>(count)});
}

void PickleWriter::text(std::string_view text) {
  std::string key(text);
  if (const auto found = texts_.find(key); found != texts_.end()) return kept(found->second);
  sink_.write("X");
  bytes(text.size(), 4);
  sink_.write(text);
  texts_.emplace(std::move(key), keep());
}

void PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (bits < 1 << 8) {
    sink_.write("K");
    bytes(bits, 1);
  } else if (bits < 1 << 16) {
    sink_.write("M");
    bytes(bits, 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    sink_.write("J");
    bytes(bits, 4);
  } else {
    sink_.write("\x8a\x08");  // LONG1 with eight bytes
    bytes(bits, 8);
  }
}

std::uint32_t PickleWriter::keep() {
  if (next_ < 256) {
    sink_.write("q");
    bytes(next_, 1);
  } else {
    sink_.write("r");
    bytes(next_, 4);
  }
  return next_++;
}

void PickleWriter::kept(std::uint32_t number) {
  sink_.write(number < 256 ? "h" : "j");
  bytes(number, number < 256 ? 1 : 4);
}

GzipStream::GzipStream(OutputSink& sink) : sink_(sink) {
  constexpr int kLargestWindow = 15, kGzipHeader = 16, kDefaultMemory = 8;
  // With fixed parameters this fails only if memory is short.
  if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kLargestWindow + kGzipHeader, kDefaultMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
}

void GzipStream::write(std::string_view bytes) {
  constexpr std::size_t kMost =
      std::numeric_limits<uInt>::max();  // zlib stores the remaining length in an unsigned int
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kMost, bytes.size())))
    deflate(bytes.substr(0, kMost), Z_NO_FLUSH);
}

void GzipStream::finish() { deflate({}, Z_FINISH); }

void GzipStream::deflate(std::string_view bytes, int flush) {
  z_stream& stream = stream_;
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
