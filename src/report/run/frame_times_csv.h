// frames/NAME.csv of a run's folder: the times of every measured frame of a model, in order. A distribution
// can only be compared with another frame by frame; a percentile does not say how sure it is.
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

// A line a frame; `device_ns` is empty where no device told it.
void append_csv(std::string& text, std::span<const FrameTimes> frames);

// Reads header and lines back; columns may be added behind. Errors, which call it `name`: another header, a
// field that is no number or below zero.
Result<std::vector<FrameTimes>> read_frame_times(std::string_view text, std::string_view name);

}  // namespace headroom::report
