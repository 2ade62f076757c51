#include "cli/snapshot_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "cli/recording_report.h"
#include "report/snapshot/snapshot_html.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::cli {

Result<int> report_snapshot(const std::filesystem::path& file, const FlagValues& values) {
  for (const char* flag : {"markdown", "csv", "all", "at", "symbols"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} does not work with a memory snapshot", flag),
                         fmt::format("{} is a memory snapshot", file.string()),
                         "remove it, or use --json or --html");
  const bool as_page = values.has("html") && !values.toggle("json");
  if (as_page)
    if (auto sound = check_output(values.text("html"), file, "--html"); !sound) return forward_error(sound);
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  report::SnapshotLive live;
  const auto devices =
      snapshot::analyze_snapshot(*snapshot, as_page ? live.options() : snapshot::SnapshotOptions{});
  const report::SnapshotReport report{file.string(), *snapshot, devices};
  if (as_page) {
    auto page = report::snapshot_to_html(report, live);
    if (!page) return forward_error(page);
    if (auto written = write_file_atomically(values.text("html"), *page); !written)
      return forward_error(written);
  } else if (values.toggle("json")) {
    print_output(to_text(report::snapshot_to_json(report)));
  } else {
    print_output(report::snapshot_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
  }
  return 0;
}

}  // namespace headroom::cli
