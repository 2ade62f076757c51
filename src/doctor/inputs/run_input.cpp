#include "doctor/inputs/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "doctor/log/log_findings.h"
#include "doctor/machine/machine_findings.h"
#include "doctor/run/run_findings.h"
#include "report/input/run_input.h"
#include "report/run/metrics_json.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

bool is_ok(const ModelResult& model) { return model.status == ModelStatus::ok; }

// Whether each model succeeded, and all of them at once.
bool has_succeeded(const BenchResult& run) {
  if (!run.complete || run.models.empty() || !std::all_of(run.models.begin(), run.models.end(), is_ok))
    return false;
  if (run.parallel && (!run.parallel->within_limit.value_or(true) ||
                       !std::all_of(run.parallel->together.begin(), run.parallel->together.end(), is_ok)))
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

}  // namespace

Result<std::string> read_run(const fs::path& file, std::vector<Finding>& findings) {
  auto result = report::read_report_file(file);
  if (!result) return forward_error(result);
  if (auto fine = report::check_run(*result, file.string()); !fine) return forward_error(fine);
  add_findings(findings, run_findings(*result, file.string()));
  std::string words = "a run of " + counted(std::ssize(result->models), "model");
  if (const auto failed = result->models.size() - static_cast<std::size_t>(std::count_if(
                                                      result->models.begin(), result->models.end(), is_ok)))
    words += result->models.size() == 1 ? ", which failed" : fmt::format(", {} of which failed", failed);
  words += read_run_log(file.parent_path() / "run.log", *result, findings);
  words += read_run_samples(file.parent_path() / "metrics.jsonl", findings);
  return words;
}

}  // namespace headroom::doctor
