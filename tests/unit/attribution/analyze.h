// Builds, opens and analyzes recordings.
#pragma once

#include <gtest/gtest.h>

#include "attribution/recording_analysis.h"
#include "unit/recording/own_recording.h"

namespace headroom::attribution {

using test::OwnRecording;

inline recording::Recording open_built(test::RecordingBuilder& builder) {
  return recording::Recording::open(builder.finish()).value();
}

inline RecordingAnalysis analyze(test::RecordingBuilder& builder, const AnalysisOptions& options = {}) {
  recording::Recording recording = open_built(builder);
  return analyze_recording(recording, options);
}

}  // namespace headroom::attribution
