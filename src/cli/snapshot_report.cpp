#include "cli/snapshot_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include "analysis/snapshot_analysis.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "report/snapshot_views.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::cli {

Result<int> report_snapshot(const std::filesystem::path& file, const FlagValues& values) {
  for (const char* flag : {"markdown", "csv", "all", "at", "symbols", "html"})
    if (values.has(flag))
      return usage_error(fmt::format("--{} does not go with a memory snapshot", flag),
                         fmt::format("{} is one", file.string()), "leave it out, or take --json");
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  const auto devices = analysis::analyze_snapshot(*snapshot, {});
  const report::SnapshotReport report{file.string(), *snapshot, devices};
  print_output(values.toggle("json") ? to_text(report::snapshot_to_json(report))
                                     : report::snapshot_to_terminal(report, wants_color(values),
                                                                    terminal_width(STDOUT_FILENO)));
  return 0;
}

}  // namespace headroom::cli
