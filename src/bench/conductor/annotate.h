// Annotated sample images. A child process draws them after the measurement, because it loads the image
// libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/interrupt.h"

namespace headroom::bench {

struct DrawnSamples {
  std::vector<std::string> images;  // paths inside the run folder
  std::string problem;              // why some images are missing; empty if all were drawn
};

// Draws the samples of the file `samples` (sample_lines.h) into run_folder/samples/MODEL_1.jpg and so on.
// Writes the findings to samples/MODEL.json and removes the file `samples`. Does nothing if that file does
// not exist. Skips frames that cannot be read a second time, such as a camera's frames. Masks may be large,
// so only the child reads the file.
Result<DrawnSamples> draw_samples(const std::string& model, const std::filesystem::path& samples,
                                  const std::vector<std::string>& class_names,
                                  const std::filesystem::path& metadata,
                                  const std::filesystem::path& run_folder, Interrupt& interrupt);

// The drawing child (hidden verb `_annotate`).
int run_annotate_process();

}  // namespace headroom::bench
