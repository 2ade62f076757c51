#include "trace/other_processes.h"

#include <algorithm>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "trace/recording_files.h"

namespace headroom::trace {

std::vector<report::ProcessFigures> other_processes(const std::filesystem::path& file) {
  std::vector<report::ProcessFigures> others;
  for (const RecordingFile& other : find_recordings(file)) {
    if (other.path == file) continue;
    auto recording = recording::Recording::open(other.path);
    if (!recording) {
      others.emplace_back().file = other.path.string();
      others.back().problem = recording.error().sentence();
      continue;
    }
    // Only sums are shown, so two points of the timeline are enough.
    const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 2});
    others.push_back(report::figures_of(other.path.string(), recording->info(), analysis));
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return others;
}

}  // namespace headroom::trace
