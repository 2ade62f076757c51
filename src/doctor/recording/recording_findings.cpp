#include "doctor/recording/recording_findings.h"

#include <algorithm>
#include <array>
#include <iterator>

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

std::vector<Finding> recording_findings(const attribution::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words) {
  const RecordingFacts facts{analysis, grown, file, place_words};
  std::vector<Finding> findings;
  for (const RecordingFinding look_for : recording_finding_list())
    std::ranges::move(look_for(facts), std::back_inserter(findings));
  for (Finding& finding : findings) {
    if (finding.evidence.empty()) finding.evidence.push_back({});
    for (Evidence& evidence : finding.evidence) evidence.file = file;
  }
  return findings;
}

}  // namespace headroom::doctor
