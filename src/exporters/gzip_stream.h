// Compresses data on its way to a sink (RFC 1952).
#pragma once

#include <memory>
#include <string_view>

#include "exporters/output_sink.h"

namespace headroom::exporters {

class GzipStream {
 public:
  explicit GzipStream(OutputSink& sink);
  GzipStream(GzipStream&&) noexcept;
  ~GzipStream();

  void write(std::string_view bytes);
  // Ends the stream. Call this once, before the sink's finish().
  void finish();

 private:
  void deflate(std::string_view bytes, int flush);
  struct State;
  std::unique_ptr<State> state_;
  OutputSink& sink_;
};

}  // namespace headroom::exporters
