// A sample run that covers all sections of the HTML report: successful models and a failed one, tuning,
// parallel, pipeline, names that need escaping.
#pragma once

#include <filesystem>
#include <string>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "report/recording/recording_html.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot.h"
#include "types/bench_result.h"

namespace headroom::test {

BenchResult sample_run();
// The annotated images that the run names, as small PNGs.
void write_sample_images(const std::filesystem::path& run_folder);
// Figures of a machine every 0.5 s for `seconds`, as lines of metrics.jsonl.
std::string sample_metrics(int seconds);

// Sample recordings that cover all sections of the page.
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

// Sample memory snapshots that cover all sections of the page.
enum class SampleSnapshot {
  training,  // a loop that leaks, on a device that runs out of memory; names that need escaping
  state,     // no trace, no stacks, two devices
  empty,     // the allocator held no memory
};

snapshot::Snapshot sample_snapshot(SampleSnapshot kind);
std::string page_of(const snapshot::Snapshot& snapshot);

}  // namespace headroom::test
