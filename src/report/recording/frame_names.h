// Names the frames of a recording's stacks.
#pragma once

#include <memory>

#include "report/recording/recording_views.h"
#include "symbols/symbolizer.h"

namespace headroom::report {

// The functions at an address, innermost first: a frame with inlined functions has several.
FrameNames names_by_symbols(std::shared_ptr<symbols::Symbolizer> symbolizer);
// The same with the default search of symbol files.
FrameNames names_by_symbols(const recording::RecordingInfo& info);

}  // namespace headroom::report
