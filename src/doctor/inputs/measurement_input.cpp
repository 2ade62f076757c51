#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "attribution/recording_analysis.h"
#include "doctor/inputs/readers.h"
#include "doctor/log/log_findings.h"
#include "doctor/machine/machine_findings.h"
#include "doctor/recording/recording_findings.h"
#include "doctor/run/run_findings.h"
#include "doctor/snapshot/snapshot_findings.h"
#include "recording/recording.h"
#include "report/input/run_input.h"
#include "report/recording/recording_views.h"
#include "report/recording/stack_text.h"
#include "report/run/report_json.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"
#include "trace/recording_files.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

const std::string& reason_of(const Error& error) { return error.why.empty() ? error.what : error.why; }

bool is_ok(const ModelResult& model) { return model.status == ModelStatus::ok; }

// Whether each model succeeded, and all of them at once.
bool has_succeeded(const BenchResult& run) {
  if (!run.complete || run.models.empty() || !std::ranges::all_of(run.models, is_ok)) return false;
  if (run.parallel &&
      (!run.parallel->within_limit.value_or(true) || !std::ranges::all_of(run.parallel->together, is_ok)))
    return false;
  return (!run.pipeline || run.pipeline->status == ModelStatus::ok) &&
         (!run.pool || run.pool->status == ModelStatus::ok);
}

// Words for a file that is not a regular one, which may block. Empty if it is missing.
std::string why_skipped(const fs::path& file) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(file, code)) || fs::is_regular_file(file, code)) return {};
  return fmt::format("; its {} was skipped: not a regular file", file.filename().string());
}

// The messages of the runtimes during the run. If every model succeeded, the failures belong to settings that
// --tune rejected, so they are not severe. Returns words; empty if there is no log.
std::string read_run_log(const fs::path& log, const BenchResult& run, std::vector<Finding>& findings) {
  std::error_code code;
  if (!fs::is_regular_file(log, code)) return why_skipped(log);
  LogFindings logs;
  const auto lines = logs.read_file(log.string());
  std::vector<Finding> found = logs.findings();
  const bool is_all_well = has_succeeded(run);
  for (Finding& finding : found)
    if (is_all_well && finding.severity == Severity::severe) {
      finding.severity = Severity::warning;
      finding.cause += finding.cause.empty() ? "" : " ";
      finding.cause += "All models of the run succeeded nevertheless.";
    }
  add_findings(findings, std::move(found));
  if (!lines) return "; its run.log was read only in part: " + reason_of(lines.error());
  return *lines > 0 ? "; its log has " + counted(*lines, "line") : std::string();
}

// The machine during the run. Returns words; empty if there is no file.
std::string read_run_samples(const fs::path& file, std::vector<Finding>& findings) {
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return why_skipped(file);
  std::ifstream stream(file, std::ios::binary);
  MachineHistory history;
  const Status read = report::read_metrics(stream, [&](report::MetricsLine line) {
    line.system.time = line.since_start;
    history.add(line.system);
  });
  const std::string name = file.filename().string();
  if (history.samples > 0) add_findings(findings, findings_during_run(history, file.string()));
  if (!read)
    return fmt::format("; its {} {}: {}", name,
                       history.samples == 0 ? "was skipped" : "was read only in part",
                       reason_of(read.error()));
  if (history.samples == 0) return {};
  return "; " + counted(history.samples, "sample") + " of the machine";
}

std::int64_t live_bytes(const Finding& finding) {
  const auto live = std::ranges::find(finding.figures, "live_bytes", &Figure::name);
  return live == finding.figures.end() ? 0 : std::get<std::int64_t>(live->value);
}

// A command with many small processes has many notes "leaks not judged". Keeps the one with the most live
// memory, and none for processes that held nothing at their end.
void merge_unjudged(std::vector<Finding>& findings, std::size_t first) {
  const auto begin = findings.begin() + static_cast<std::ptrdiff_t>(first);
  const auto unjudged = std::stable_partition(
      begin, findings.end(), [](const Finding& finding) { return finding.id != "leaks-not-judged"; });
  if (unjudged == findings.end()) return;
  const auto times =
      std::count_if(unjudged, findings.end(), [](const Finding& finding) { return live_bytes(finding) > 0; });
  std::iter_swap(unjudged, std::ranges::max_element(unjudged, findings.end(), std::less{}, live_bytes));
  unjudged->times = times;
  findings.erase(unjudged + (times > 0 ? 1 : 0), findings.end());
}

}  // namespace

Result<std::string> read_run(const fs::path& file, std::vector<Finding>& findings) {
  auto result = report::read_report_file(file);
  if (!result) return forward_error(result);
  if (auto fine = report::check_run(*result, file.string()); !fine) return forward_error(fine);
  add_findings(findings, run_findings(*result, file.string()));
  std::string words = "a run of " + counted(std::ssize(result->models), "model");
  if (const auto failed =
          result->models.size() - static_cast<std::size_t>(std::ranges::count_if(result->models, is_ok)))
    words += result->models.size() == 1 ? ", which failed" : fmt::format(", {} of which failed", failed);
  words += read_run_log(file.parent_path() / "run.log", *result, findings);
  words += read_run_samples(file.parent_path() / "metrics.jsonl", findings);
  return words;
}

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
  merge_unjudged(examination.findings, first);
  if (skipped > 0)
    examination.examined.push_back(
        {recording.string() + ".d", "recording", fmt::format("{} more recordings were skipped", skipped)});
}

}  // namespace headroom::doctor
