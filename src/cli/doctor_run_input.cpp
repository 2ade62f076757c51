#include "cli/doctor_run_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/files.h"
#include "cli/doctor_input_parts.h"
#include "cli/run_inputs.h"
#include "doctor/log/log_findings.h"
#include "doctor/machine/machine_findings.h"
#include "doctor/run/run_findings.h"
#include "report/run/metrics_json.h"
#include "report/run/report_json.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

bool is_ok(const ModelResult& model) { return model.status == ModelStatus::ok; }

// All that was asked for: each model, and all of them at once.
bool came_through(const BenchResult& run) {
  if (!run.complete || run.models.empty() || !std::all_of(run.models.begin(), run.models.end(), is_ok))
    return false;
  if (run.parallel && (!run.parallel->within_limit.value_or(true) ||
                       !std::all_of(run.parallel->together.begin(), run.parallel->together.end(), is_ok)))
    return false;
  return (!run.pipeline || run.pipeline->status == ModelStatus::ok) &&
         (!run.pool || run.pool->status == ModelStatus::ok);
}

// Empty where there is such a file; of one that is not there, too. A pipe would be waited for.
std::string why_not_read(const fs::path& file) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(file, code)) || fs::is_regular_file(file, code)) return {};
  return fmt::format("; its {} was skipped: not a regular file", file.filename().string());
}

// What the runtimes said while the run was made. Where every model came through, what failed on the way was
// tried and given up (settings of --tune), and is no alarm. Told in words; empty of a log that is not there.
std::string read_run_log(const fs::path& log, const BenchResult& run, std::vector<Finding>& findings) {
  std::error_code code;
  if (!fs::is_regular_file(log, code)) return why_not_read(log);
  doctor::LogFindings logs;
  const auto lines = logs.read_file(log.string());
  std::vector<Finding> told = logs.findings();
  const bool is_all_well = came_through(run);
  for (Finding& finding : told)
    if (is_all_well && finding.severity == Severity::severe) {
      finding.severity = Severity::warning;
      finding.cause += finding.cause.empty() ? "" : " ";
      finding.cause += "All models of the run succeeded nevertheless.";
    }
  append(findings, std::move(told));
  if (!lines) return "; its run.log was read only in part: " + reason(lines.error());
  return *lines > 0 ? "; its log has " + counted(*lines, "line", "lines") : std::string();
}

// The machine while the run was made, told in words; empty of a file that is not there.
std::string read_run_samples(const fs::path& file, std::vector<Finding>& findings) {
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return why_not_read(file);
  std::ifstream stream(file, std::ios::binary);
  doctor::MachineHistory history;
  const Status read = report::read_metrics(stream, [&](report::MetricsLine line) {
    line.system.time = line.since_start;
    history.add(line.system);
  });
  const std::string name = file.filename().string();
  if (history.samples > 0) append(findings, doctor::findings_during_run(history, file.string()));
  if (!read)
    return fmt::format("; its {} {}: {}", name,
                       history.samples == 0 ? "was skipped" : "was read only in part", reason(read.error()));
  if (history.samples == 0) return {};
  return "; " + counted(history.samples, "sample", "samples") + " of the machine";
}

}  // namespace

Result<std::string> read_run(const fs::path& file, std::vector<Finding>& findings) {
  auto text = read_file(file, kLargestReport);
  if (!text) return forward_error(text);
  auto result = report::read_report(*text, file.string());
  if (!result) return forward_error(result);
  if (auto fine = check_figures(*result, file.string()); !fine) return forward_error(fine);
  if (auto fine = check_model_names(*result, file.string()); !fine) return forward_error(fine);
  append(findings, doctor::run_findings(*result, file.string()));
  std::string words =
      "a run of " + counted(static_cast<std::int64_t>(result->models.size()), "model", "models");
  if (const auto failed = result->models.size() - static_cast<std::size_t>(std::count_if(
                                                      result->models.begin(), result->models.end(), is_ok)))
    words += result->models.size() == 1 ? ", which failed" : fmt::format(", {} of which failed", failed);
  words += read_run_log(file.parent_path() / "run.log", *result, findings);
  words += read_run_samples(file.parent_path() / "metrics.jsonl", findings);
  return words;
}

}  // namespace headroom::cli
