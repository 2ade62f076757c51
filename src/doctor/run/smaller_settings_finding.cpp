#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> smaller_settings(const ModelResult& model, const BenchResult&) {
  if (!model.smallest_settings) return std::nullopt;
  std::optional<Bytes> now, small;
  for (const TuneTrial& trial : model.trials) {
    if (trial.settings == model.settings) now = trial.counted_peak();
    if (trial.settings == *model.smallest_settings) small = trial.counted_peak();
  }
  if (!now || !small || now->count - small->count < kWorthTellingOfModels) return std::nullopt;
  const bool is_search = model.settings.conv_search == ConvSearch::exhaustive &&
                         model.smallest_settings->conv_search != ConvSearch::exhaustive;
  Finding finding = new_finding(
      is_search ? "convolution-search" : "smaller-settings", Severity::note,
      fmt::format("{} needs {} less with other settings, at 95 % of the speed or more", model.name,
                  format_bytes(*now - *small)),
      is_search ? "The search for the fastest convolutions needs workspace." : "Measured by --tune.");
  finding.figures = {{"peak_bytes", now->count}, {"smallest_peak_bytes", small->count}};
  finding.cures = {with_settings(model, "use the smallest settings that --tune found",
                                 changed_settings(model.settings, *model.smallest_settings), *now - *small)};
  return finding;
}

}  // namespace headroom::doctor
