// The findings of a model on a frame to be drawn, as JSON lines of at most 4 KiB. The worker sends them among
// its events, the conductor writes them to a file unread, and the drawing child reads that file. None of the
// three keeps a whole mask as JSON, because 4096 × 4096 pixels as a tree of JSON numbers take 256 MiB. In the
// worker that would distort the measured memory.
//
// A sample is a line of part "begin", lines of "detections", "quads", "lines", "mask" and "runs", and a line
// of part "end". The pixels of a mask are run-length encoded: value, length, value, length, …, row by row. A
// sample without its "end" line was cut short.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/conductor/child_process.h"
#include "types/detection.h"

namespace headroom::bench {

// A frame to draw: a frame of the source and the model's findings on it.
struct SampleFrame {
  std::int32_t sequence = 0;
  std::int64_t frame = 0;
  std::string name;
  FrameFindings findings;
};

// Writes a sample to `fd`. Allocates nothing for the findings: it uses a buffer of one line on the stack.
void write_sample(int fd, std::int32_t sequence, std::int64_t frame, const std::string& name,
                  const FrameFindings& findings);

// Whether a line from a worker belongs to a sample.
bool is_sample_line(std::string_view line);

// Reads the next complete sample; absent at the end. Skips samples that are damaged, cut short, or larger
// than kMostMaskPixels.
inline constexpr std::int64_t kMostMaskPixels = std::int64_t{1} << 27;  // in one sample
std::optional<SampleFrame> read_sample(std::istream& lines);

// For samples/MODEL.json: everything except the pixels of masks, which the images show.
nlohmann::ordered_json to_json(const FrameFindings& findings);

// Annotated sample images. A child process draws them after the measurement, because it loads the image
// libraries.
struct DrawnSamples {
  std::vector<std::string> images;  // paths inside the run folder
  std::string problem;              // why some images are missing; empty if all were drawn
};

// Draws the samples of the file `samples` into run_folder/samples/MODEL_1.jpg and so on.
// Writes the findings to samples/MODEL.json and removes the file `samples`. Does nothing if that file does
// not exist. Skips frames that cannot be read a second time, such as a camera's frames. Masks may be large,
// so only the child reads the file.
Result<DrawnSamples> draw_samples(const std::string& model, const std::filesystem::path& samples,
                                  const std::vector<std::string>& class_names,
                                  const std::filesystem::path& metadata,
                                  const std::filesystem::path& run_folder, Interrupt& interrupt);

}  // namespace headroom::bench
