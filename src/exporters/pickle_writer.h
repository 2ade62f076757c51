// Writes a pickle of protocol 2: dicts, lists, texts, integers, and references to earlier values. It uses
// only opcodes that Python, Headroom's reader and PyTorch's memory_viz support (the last is a small reader in
// JavaScript). Each text is written once and then referenced.
//
//   PickleWriter pickle(sink);
//   pickle.begin_dict();
//   pickle.text("size");
//   pickle.integer(4096);
//   pickle.end_dict();
//   pickle.finish();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "exporters/output_sink.h"

namespace headroom::exporters {

class PickleWriter {
 public:
  explicit PickleWriter(OutputSink& sink);

  void begin_dict();  // followed by keys and values in turn
  void end_dict();
  void begin_list();
  // Call this after each list item: lists may be long, and some readers buffer a whole batch.
  void end_item();
  void text(std::string_view text);
  void integer(std::int64_t value);
  void boolean(bool value);

  // Stores the last written value under a number.
  std::uint32_t keep();
  // Writes a reference to the value with this number.
  void kept(std::uint32_t number);

  // Ends the pickle; the last value is its content.
  void finish();

 private:
  void bytes(std::uint64_t value, int count);

  OutputSink& sink_;
  std::uint32_t next_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

}  // namespace headroom::exporters
