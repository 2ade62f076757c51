#include "doctor/recording/recording_findings.h"

#include <algorithm>
#include <array>

#include "doctor/cure_commands.h"
#include "doctor/recording/recording_finding.h"

namespace headroom::doctor {

std::vector<std::int64_t> growth_by_layer(recording::Recording& recording,
                                          const attribution::RecordingAnalysis& analysis) {
  if (!analysis.host_recorded || analysis.leaks.growth != monitoring::Growth::leak) return {};
  const std::array times{Nanoseconds{analysis.duration.count / 2}, analysis.duration};
  const auto moments = attribution::live_at(recording, times);
  if (moments.size() != times.size()) return {};
  std::vector<std::int64_t> grown = moments[1].bytes_by_layer;
  for (std::size_t i = 0; i < std::min(grown.size(), moments[0].bytes_by_layer.size()); ++i)
    grown[i] -= moments[0].bytes_by_layer[i];
  return grown;
}

std::vector<Finding> recording_incomplete(const RecordingFacts& facts) {
  if (facts.analysis.complete || facts.analysis.problems.empty()) return {};
  return {Finding{.id = "recording-incomplete",
                  .severity = Severity::note,
                  .title = "The recording is incomplete: figures may be too small",
                  .cause = facts.analysis.problems.front()}};
}

std::vector<Finding> recording_findings(const attribution::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words) {
  const RecordingFacts facts{analysis, grown, file, place_words};
  std::vector<Finding> findings;
  for (RecordingFinding* look_for : kRecordingFindings)
    for (Finding& found : look_for(facts)) {
      complete_evidence(found, file);
      findings.push_back(std::move(found));
    }
  return findings;
}

}  // namespace headroom::doctor
