#include "bench/conductor/bench_state.h"

#include "base/log.h"
#include "bench/conductor/report_files.h"

namespace headroom::bench {

void step(Run& run, const std::string& text) {
  run.progress_line.clear();
  if (run.options.quiet)
    log::debug("{}", text);
  else
    log::info("{}", text);
}

void note_disk_problem(Run& run, const Status& written) {
  if (written || std::exchange(run.disk_warned, true)) return;
  run.progress_line.clear();
  Error error = written.error();
  error.fix = "free space there, or choose another --output-dir";
  log::warning("the run continues and its figures will be printed, but {}", error.sentence());
}

void save_progress(Run& run) { note_disk_problem(run, write_report_json(run.result, run.folder.path)); }

Status save_finished(Run& run) {
  run.result.system = run.metrics.summary();
  if (auto problem = run.metrics.take_problem()) run.result.warnings.push_back(std::move(*problem));
  auto written = write_all_reports(run.result, run.folder.path);
  if (auto footprints = write_footprints(run.result, run.prepared, run.folder.path); written)
    written = footprints;
  return written;
}

void save_reports(Run& run) { note_disk_problem(run, save_finished(run)); }

}  // namespace headroom::bench
