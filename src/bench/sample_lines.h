// What a model found on a frame worth drawing, as JSON lines of at most 4 KiB: a worker sends them beside its
// events, the conductor passes them to a file unread, the drawing child reads that. None of the three holds a
// frame's masks as text: 4096 × 4096 pixels as a tree of JSON numbers are 256 MiB, and the worker's figures
// would be those of its pictures.
//
// A sample is a line of part "begin", lines of "detections", "quads", "lines", "mask" and "runs", and a line
// of part "end"; the pixels of a mask are its runs: value, length, value, length, …, row by row. One without
// its end was cut short.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/detection.h"

namespace headroom::bench {

// A picture worth drawing: a frame of the source and what the model found in it.
struct SampleFrame {
  std::int32_t sequence = 0;
  std::int64_t frame = 0;
  std::string name;
  FrameFindings findings;
};

// Writes a sample to `fd`. Takes no memory for the findings: a buffer of one line on the stack.
void write_sample(int fd, std::int32_t sequence, std::int64_t frame, const std::string& name,
                  const FrameFindings& findings);

// Whether an event of a worker belongs to a sample.
bool is_sample_line(std::string_view line);

// The next whole sample; nothing at the end. What is damaged or cut short is passed over, and so is what
// goes over kMostMaskPixels.
inline constexpr std::int64_t kMostMaskPixels = std::int64_t{1} << 27;  // in one sample
std::optional<SampleFrame> read_sample(std::istream& lines);

// For samples/MODEL.json: everything but the pixels of masks, which pictures show.
nlohmann::ordered_json to_json(const FrameFindings& findings);

}  // namespace headroom::bench
