#include "report/recording/recording_views.h"

#include <utility>

#include "symbols/symbolizer.h"

namespace headroom::report {

FrameNames names_by_symbols(std::shared_ptr<symbols::Symbolizer> symbolizer) {
  return [symbolizer = std::move(symbolizer)](std::uint64_t return_address) {
    std::vector<std::string> names;
    for (const symbols::SourceFrame& frame : symbolizer->frames_of(return_address, true))
      names.emplace_back(frame.function);
    return names;
  };
}

FrameNames names_by_symbols(const recording::RecordingInfo& info) {
  return names_by_symbols(std::make_shared<symbols::Symbolizer>(info.modules, symbols::SymbolizerOptions{}));
}

}  // namespace headroom::report
