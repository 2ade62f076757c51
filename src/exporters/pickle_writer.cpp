#include "exporters/pickle_writer.h"

namespace headroom::exporters {

PickleWriter::PickleWriter(OutputSink& sink) : sink_(sink) { sink_.write("\x80\x02"); }

void PickleWriter::begin_dict() { sink_.write("}("); }
void PickleWriter::end_dict() { sink_.write("u"); }
void PickleWriter::begin_list() { sink_.write("]"); }
void PickleWriter::end_item() { sink_.write("a"); }
void PickleWriter::finish() { sink_.write("."); }
void PickleWriter::boolean(bool value) { sink_.write(value ? "\x88" : "\x89"); }

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

}  // namespace headroom::exporters
