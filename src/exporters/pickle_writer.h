// Writes a pickle of protocol 2: dicts, lists, texts, whole numbers, and what was written before by its
// number. Only opcodes that Python, Headroom's own reader and PyTorch's memory_viz (a reader in JavaScript
// with few of them) all know. Texts are written once and referred to afterwards.
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

  void begin_dict();  // keys and values by turns follow
  void end_dict();
  void begin_list();
  void end_item();  // after each item of a list: lists may be long, and some readers hold a whole batch
  void text(std::string_view text);
  void integer(std::int64_t value);
  void boolean(bool value);

  // Keeps the value written last under a number.
  std::uint32_t keep();
  void kept(std::uint32_t number);

  // The last value is the pickle.
  void finish();

 private:
  void bytes(std::uint64_t value, int count);

  OutputSink& sink_;
  std::uint32_t next_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

}  // namespace headroom::exporters
