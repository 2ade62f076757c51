#include <fmt/format.h>

#include "base/json.h"
#include "cli/report_inputs.h"
#include "cli/views.h"
#include "report/snapshot/snapshot_html.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::cli {

Status report_snapshot(const std::filesystem::path& file, const FlagValues& values) {
  for (const char* flag : {"markdown", "csv", "all", "at", "symbols"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} does not work with a memory snapshot", flag),
                         fmt::format("{} is a memory snapshot", file.string()),
                         "remove it, or use --json or --html");
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  report::SnapshotLive live;
  const auto devices = snapshot::analyze_snapshot(
      *snapshot, values.has("html") ? live.options() : snapshot::SnapshotOptions{});
  const report::SnapshotReport report{file.string(), *snapshot, devices};
  Views views;
  views.json = [&] { return to_text(report::snapshot_to_json(report)); };
  views.html = [&] { return report::snapshot_to_html(report, live); };
  views.terminal = [&](bool color, int width) { return report::snapshot_to_terminal(report, color, width); };
  return print_views(values, views);
}

}  // namespace headroom::cli
