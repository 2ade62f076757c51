// Recordings with everything that the page of a recording shows.
#pragma once

#include <filesystem>

#include "analysis/recording_analysis.h"
#include "recording/recording.h"
#include "report/recording_html.h"

namespace headroom::test {

// What would end a script element, open a comment or become markup, if names were not kept apart from it.
inline constexpr const char* kHostileName = "</script><!--<script>alert(1)</script>&amp;\"'";

enum class SampleRecording {
  model,    // full: a session loads and runs twelve times, and each Run keeps some
  sampled,  // of default mode: killed, with a gap
  empty,    // nothing was allocated
  gpu,      // of GPU memory alone: two devices, of which one has a limit that refused, and layers
};

struct AnalysedRecording {
  recording::Recording recording;
  analysis::RecordingAnalysis analysis;

  report::RecordingReport report() const;
  Result<std::string> page();
};

AnalysedRecording sample_recording(SampleRecording kind, const std::filesystem::path& folder);

}  // namespace headroom::test
