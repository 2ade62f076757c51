// Encodings of the export formats: protobuf, pickle and gzip.
#pragma once

#include <zlib.h>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "exporters/output_sink.h"

namespace headroom::exporters {

// One protobuf message (https://protobuf.dev/programming-guides/encoding), with fields in the order of the
// calls. Enough for the export formats, without generated code.
class ProtobufMessage {
 public:
  // int32 … uint64, bool and enum. Negative values take ten bytes, as the format requires.
  ProtobufMessage& integer(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
    return *this;
  }
  ProtobufMessage& integer(std::uint32_t field, std::integral auto value) {
    return integer(field, static_cast<std::uint64_t>(value));
  }
  // string and bytes.
  ProtobufMessage& text(std::uint32_t field, std::string_view value) {
    varint(std::uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(std::uint32_t field, const ProtobufMessage& value) {
    return text(field, value.bytes_);
  }
  // A packed repeated integer field.
  template <class Values>
  ProtobufMessage& packed(std::uint32_t field, const Values& values) {
    ProtobufMessage content;
    for (const auto value : values) content.varint(static_cast<std::uint64_t>(value));
    return message(field, content);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// protobuf strings must be UTF-8, but file and function names may be invalid: invalid bytes become U+FFFD.
std::string valid_utf8(std::string_view text);

// Writes a pickle of protocol 2: dicts, lists, texts, integers, and references to earlier values. It uses
// only opcodes that Python, Headroom's reader and PyTorch's memory_viz support (the last is a small reader in
// JavaScript). Each text is written once and then referenced.
//
//   PickleWriter pickle(sink);
//   pickle.begin_dict();
//   pickle.integer("size", 4096);
//   pickle.end_dict();
//   pickle.finish();
class PickleWriter {
 public:
  explicit PickleWriter(OutputSink& sink);

  void begin_dict() { sink_.write("}("); }  // followed by keys and values in turn
  void end_dict() { sink_.write("u"); }
  void begin_list() { sink_.write("]"); }
  // Call this after each list item: lists may be long, and some readers buffer a whole batch.
  void end_item() { sink_.write("a"); }
  void text(std::string_view text);
  void integer(std::int64_t value);
  // Entries of a dict.
  void text(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  void integer(std::string_view key, std::int64_t value) {
    text(key);
    integer(value);
  }
  void boolean(std::string_view key, bool value) {
    text(key);
    sink_.write(value ? "\x88" : "\x89");
  }
  void begin_list(std::string_view key) {
    text(key);
    begin_list();
  }

  // Stores the last written value under a number.
  std::uint32_t keep();
  // Writes a reference to the value with this number.
  void kept(std::uint32_t number);

  // Ends the pickle; the last value is its content.
  void finish() { sink_.write("."); }

 private:
  void bytes(std::uint64_t value, int count);

  OutputSink& sink_;
  std::uint32_t next_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

// Compresses data on its way to a sink (RFC 1952).
class GzipStream {
 public:
  explicit GzipStream(OutputSink& sink);
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  ~GzipStream() { deflateEnd(&stream_); }

  void write(std::string_view bytes);
  // Ends the stream. Call this once, before the sink's finish().
  void finish();

 private:
  void deflate(std::string_view bytes, int flush);
  z_stream stream_{};
  OutputSink& sink_;
};

}  // namespace headroom::exporters
