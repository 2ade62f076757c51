#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

// Reading a dataset round and round through a full cache looks alike, at the pace of a disk: a warning.
std::optional<Finding> control_group_thrash(const MachineHistory& history) {
  if (history.group_thrashed < kLeastThrash) return std::nullopt;
  constexpr double kPaceOfDisks = 25'000, kWaiting = 0.05;  // pages a second: 100 MiB
  const bool is_severe = history.most_group_pages >= kPaceOfDisks && history.most_group_waiting >= kWaiting;
  const Bytes limit = history.thrashed_group_limit;
  Finding finding = new_finding(
      "control-group-thrash", is_severe ? Severity::severe : Severity::warning,
      fmt::format("At its limit of {}, the control group re-read up to {:.0f} pages per second, for {}",
                  format_bytes(limit), history.most_group_pages, format_duration(history.group_thrashed)),
      "Its working set, such as mapped weights and code, does not fit: the kernel drops pages and reads them "
      "again at once. The machine has free memory, but the group does not.",
      Confidence::likely);
  finding.figures = {{"level", "control group"},
                     {"limit_bytes", limit.count},
                     {"thrash_seconds", history.group_thrashed.seconds()},
                     {"most_pages_per_second", history.most_group_pages},
                     {"most_waiting_percent", 100 * history.most_group_waiting}};
  // Twice the limit is a first try: the samples do not tell how much of the files is needed, only that it is
  // more than there is room for.
  const std::int64_t size = 2 * limit.count / mebibytes(1).count;
  finding.cures = {{"double the limit, and repeat until no pages are re-read",
                    fmt::format("headroom run --limit {}MiB -- COMMAND", size),
                    {}},
                   {"double a container's limit", docker_update({size, limit, {}}, "CONTAINER"), {}},
                   {"run fewer models at once in the group", "headroom plan BUDGET.toml", {}}};
  return finding;
}

}  // namespace headroom::doctor
