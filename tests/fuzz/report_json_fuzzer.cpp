// The readers of report.json, footprints and metrics.jsonl. Accepted data must be the same after writing and
// reading it again, and every view must accept it.
#include <sstream>

#include "base/json.h"
#include "fuzz.h"
#include "report/run/report_json.h"
#include "report/run/views.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  if (const auto run = report::read_report(text)) {
    const Json document = report::to_json(*run);
    const auto again = report::bench_result_from_json(document);
    if (!again || report::to_json(*again) != document) std::abort();
    report::to_markdown(*run);
    report::to_csv(*run);
    report::to_terminal(*run, true, 80);
  }
  if (const auto document = parse_json(text)) (void)report::footprint_from_json(*document);
  std::istringstream lines{std::string(text)};
  (void)report::read_metrics(lines, [](const report::MetricsLine&) {});
}
