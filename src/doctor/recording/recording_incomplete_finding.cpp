#include "doctor/recording/recording_finding.h"

namespace headroom::doctor {

std::vector<Finding> recording_incomplete(const RecordingFacts& facts) {
  const auto& analysis = facts.analysis;
  if (analysis.complete || analysis.problems.empty()) return {};
  Finding finding;
  finding.id = "recording-incomplete";
  finding.severity = Severity::note;
  finding.title = "The recording is incomplete: figures may be too small";
  finding.cause = analysis.problems.front();
  return {std::move(finding)};
}

}  // namespace headroom::doctor
