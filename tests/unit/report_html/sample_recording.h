// Sample recordings that cover all sections of the page.
#pragma once

#include <filesystem>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "report/recording/recording_html.h"

namespace headroom::test {

enum class SampleRecording {
  model,    // full: a session loads and runs twelve times, and each Run leaks some memory
  sampled,  // default mode: killed, with a gap
  empty,    // nothing was allocated
  gpu,      // GPU memory alone: two devices, one with a limit and a refused request, and layers
};

struct AnalysedRecording {
  recording::Recording recording;
  attribution::RecordingAnalysis analysis;

  report::RecordingReport report() const;
  std::string page();
};

AnalysedRecording sample_recording(SampleRecording kind, const std::filesystem::path& folder);

}  // namespace headroom::test
