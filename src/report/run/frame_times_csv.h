// frames/NAME.csv of a run's folder: the times of every measured frame of a model, in order. `headroom diff`
// compares distributions by single frames, because a percentile does not show its uncertainty.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/frame_times.h"

namespace headroom::report {

inline constexpr std::string_view kFrameTimesHeader =
    "decode_ns,preprocess_ns,inference_ns,postprocess_ns,findings,device_ns\n";

// One line per frame; `device_ns` is empty if it was not measured.
void append_csv(std::string& text, std::span<const FrameTimes> frames);

// Reads header and lines back; later versions may append columns. Errors name the text `name`: another
// header, or a field that is not a number or is negative.
Result<std::vector<FrameTimes>> read_frame_times(std::string_view text, std::string_view name);

}  // namespace headroom::report
