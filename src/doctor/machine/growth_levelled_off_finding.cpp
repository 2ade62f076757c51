#include <fmt/format.h>

#include <algorithm>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"
#include "monitoring/series_growth.h"

namespace headroom::doctor {
namespace {

std::optional<Finding> in_session(const MachineSession& session) {
  if (session.seconds_left.value || session.growth_per_hour.value.value_or(0) > 0) return std::nullopt;
  const double least = static_cast<double>(std::max(share_of(session.ram_total, 2), mebibytes(64).count));
  const auto growth = monitoring::growth_of(session.at, session.used, least);
  if (growth.growth != monitoring::Growth::grew_then_stayed) return std::nullopt;
  const auto [low, high] = std::minmax_element(session.used.begin(), session.used.end());
  Finding finding =
      new_finding("growth-levelled-off", Severity::note,
                  fmt::format("Memory grew by {} and then stayed the same", format_bytes({*high - *low})),
                  "Arenas, caches or pools filled up. These samples show no leak.", Confidence::likely);
  finding.figures = {{"growth_bytes", *high - *low}};
  return finding;
}

}  // namespace

std::optional<Finding> growth_levelled_off(const MachineHistory& history) {
  std::optional<Finding> found = in_session(history.session);
  for (auto session = history.earlier.rbegin(); !found && session != history.earlier.rend(); ++session) {
    found = in_session(*session);
    if (found) found->evidence = of_session(history, *session);
  }
  return found;
}

}  // namespace headroom::doctor
