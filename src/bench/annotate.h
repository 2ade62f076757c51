// Annotated sample images: drawn after the measurement, by a child that loads the image libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/interrupt.h"

namespace headroom::bench {

struct DrawnSamples {
  std::vector<std::string> images;  // paths inside the run folder
  std::string problem;              // a sentence if some could not be drawn or written
};

// Draws the samples of the file `samples` (sample_lines.h) into run_folder/samples/MODEL_1.jpg …, writes what
// was found to samples/MODEL.json and removes the file. Without that file there is nothing to draw. A frame
// that cannot be had again (a camera's) is left out. This process does not read the file: masks may be large.
Result<DrawnSamples> draw_samples(const std::string& model, const std::filesystem::path& samples,
                                  const std::vector<std::string>& class_names,
                                  const std::filesystem::path& metadata,
                                  const std::filesystem::path& run_folder, Interrupt& interrupt);

// The drawing child (hidden verb `_annotate`).
int run_annotate_process();

}  // namespace headroom::bench
