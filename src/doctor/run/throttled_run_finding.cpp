#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::vector<Finding> throttled_run(const BenchResult& result) {
  for (const MetricSummary& metric : result.system)
    if (metric.name == "throttled" && metric.max > 0) {
      Finding finding = new_finding(
          "throttled", Severity::warning,
          fmt::format("The board or a GPU was throttled in {:.0f} % of the samples", 100 * metric.mean),
          "Heat or a weak power supply reduced the clocks, so latencies are higher than they could be.");
      finding.figures = {{"throttled_percent", 100 * metric.mean}};
      finding.cures = {
          {"cool the board, or choose a lower power mode, and measure again", "sudo nvpmodel -m MODE", {}}};
      return {finding};
    }
  return {};
}

}  // namespace headroom::doctor
