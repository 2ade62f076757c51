// Compresses what goes to a sink (RFC 1952), as it goes.
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
  // The end of the stream; to be called once, before the sink's own.
  void finish();

 private:
  void deflate(std::string_view bytes, int flush);
  struct State;
  std::unique_ptr<State> state_;
  OutputSink& sink_;
};

}  // namespace headroom::exporters
