#include <fmt/format.h>

#include <algorithm>

#include "analysis/series_growth.h"
#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> growth_levelled_off(const MachineHistory& history) {
  if (history.seconds_left.value || history.growth_per_hour.value.value_or(0) > 0) return std::nullopt;
  const double least =
      static_cast<double>(std::max(share_of(history.last.ram_total, 2), mebibytes(64).count));
  const auto growth = analysis::growth_of(history.at, history.used, least);
  if (growth.growth != analysis::Growth::grew_then_stayed) return std::nullopt;
  const auto [low, high] = std::minmax_element(history.used.begin(), history.used.end());
  Finding finding =
      new_finding("growth-levelled-off", Severity::note,
                  fmt::format("Memory grew by {} and then stayed", format_bytes({*high - *low})),
                  "Arenas, caches and pools that filled: no leak by these samples.", Confidence::likely);
  finding.figures = {{"growth_bytes", *high - *low}};
  return finding;
}

}  // namespace headroom::doctor
