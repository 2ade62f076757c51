#include "report/run/process_figures.h"

#include <cmath>

namespace headroom::report {

std::string one_line_command(const recording::RecordingInfo& info) {
  std::string text;
  for (const std::string& word : info.command) text += (text.empty() ? "" : " ") + word;
  return text.empty() ? info.executable : text;
}

ProcessFigures figures_of(const std::string& file, const recording::RecordingInfo& info,
                          const attribution::RecordingAnalysis& analysis) {
  ProcessFigures figures;
  figures.file = file;
  figures.command = one_line_command(info);
  figures.pid = info.pid;
  figures.exec_generation = info.exec_generation;
  figures.events = analysis.events;
  figures.allocations = analysis.allocations;
  figures.deallocations = analysis.deallocations;
  figures.total_allocated_bytes = analysis.total_allocated_bytes;
  figures.peak_bytes = analysis.peak_bytes.value;
  figures.peak_standard_error = analysis.peak_bytes.standard_error.value_or(0);
  figures.leaked_bytes = analysis.leaked_bytes.value;
  figures.host_recorded = analysis.host_recorded;
  for (const attribution::DeviceFigures& device : analysis.devices)
    figures.device_peak_bytes = figures.device_peak_bytes.value_or(0) + device.peak_bytes;
  figures.dropped_events = analysis.dropped_events;
  figures.complete = analysis.complete;
  return figures;
}

TreeFigures tree_figures(const RecordingReport& report) {
  TreeFigures tree{1, figures_of(report.file, report.info, report.analysis)};
  for (const ProcessFigures& other : report.others) {
    if (!other.problem.empty()) continue;
    ++tree.processes;
    tree.sums.events += other.events;
    tree.sums.allocations += other.allocations;
    tree.sums.deallocations += other.deallocations;
    tree.sums.total_allocated_bytes += other.total_allocated_bytes;
    tree.sums.peak_bytes += other.peak_bytes;
    tree.sums.peak_standard_error = std::hypot(tree.sums.peak_standard_error, other.peak_standard_error);
    tree.sums.leaked_bytes += other.leaked_bytes;
    tree.sums.host_recorded = tree.sums.host_recorded && other.host_recorded;
    if (other.device_peak_bytes)
      tree.sums.device_peak_bytes = tree.sums.device_peak_bytes.value_or(0) + *other.device_peak_bytes;
    tree.sums.dropped_events += other.dropped_events;
    tree.sums.complete = tree.sums.complete && other.complete;
  }
  return tree;
}

}  // namespace headroom::report
