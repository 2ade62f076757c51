#include "doctor/inputs/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "attribution/recording_analysis.h"
#include "doctor/log/log_findings.h"
#include "doctor/recording/recording_findings.h"
#include "doctor/snapshot/snapshot_findings.h"
#include "recording/recording.h"
#include "report/recording/frame_names.h"
#include "report/recording/stack_text.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"
#include "trace/recording_files.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

// A command with many small processes has many notes "leaks not judged". Keeps the one with the most live
// memory, and none for processes that held nothing at their end.
void merge_unjudged(std::size_t first, std::vector<Finding>& findings) {
  const auto live = [](const Finding& finding) -> std::int64_t {
    for (const Figure& figure : finding.figures)
      if (figure.name == "live_bytes" && std::holds_alternative<std::int64_t>(figure.value))
        return std::get<std::int64_t>(figure.value);
    return 0;
  };
  std::optional<Finding> most;
  std::int64_t times = 0;
  for (std::size_t i = first; i < findings.size();) {
    if (findings[i].id != "leaks-not-judged") {
      ++i;
      continue;
    }
    if (live(findings[i]) > 0) ++times;
    if (live(findings[i]) > (most ? live(*most) : 0)) most = std::move(findings[i]);
    findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!most) return;
  most->times = times;
  findings.push_back(std::move(*most));
}

}  // namespace

Result<std::string> read_recording(const fs::path& file, std::vector<Finding>& findings) {
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const auto analysis = attribution::analyze_recording(*recording, {});
  const auto grown = growth_by_layer(*recording, analysis);
  const report::RecordingReport named{file.string(),
                                      recording->info(),
                                      recording->stacks(),
                                      analysis,
                                      report::names_by_symbols(recording->info()),
                                      {},
                                      false};
  constexpr int kPlaceWidth = 160;
  add_findings(findings, recording_findings(analysis, grown, file.string(), [&](StackId stack) {
                 return report::one_line_stack(named, stack, kPlaceWidth);
               }));
  std::string words = "a recording of headroom trace";
  if (analysis.host_recorded && analysis.leaks.growth == monitoring::Growth::unknown)
    words += "; no layer repeats in it, so leaks were not searched";
  return words;
}

Result<std::string> read_snapshot(const fs::path& file, std::vector<Finding>& findings) {
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  add_findings(findings,
               snapshot_findings(*snapshot, snapshot::analyze_snapshot(*snapshot, {}), file.string()));
  return std::string("a memory snapshot of PyTorch");
}

void read_other_processes(const fs::path& recording, Examination& examination) {
  constexpr std::size_t kMost = 100;
  std::size_t read = 0, skipped = 0;
  const std::size_t first = examination.findings.size();
  for (const trace::RecordingFile& other : trace::find_recordings(recording)) {
    if (other.path == recording || !examination.is_new(other.path)) continue;
    if (++read > kMost) {
      ++skipped;
      continue;
    }
    auto words = read_recording(other.path, examination.findings);
    if (!words) words = "skipped: " + words.error().sentence();
    examination.examined.push_back({other.path.string(), "recording", std::move(*words)});
  }
  merge_unjudged(first, examination.findings);
  if (skipped > 0)
    examination.examined.push_back(
        {recording.string() + ".d", "recording", fmt::format("{} more recordings were skipped", skipped)});
}

}  // namespace headroom::doctor
