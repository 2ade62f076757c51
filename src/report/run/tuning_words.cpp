#include "report/run/tuning_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "report/words.h"

namespace headroom::report {
namespace {

// Settings that were given back after every trial failed are the runtime's own and were not found by tuning.
const TuneTrial* trial_of(const ModelResult& model, const RuntimeSettings& settings) {
  const auto found = std::find_if(model.trials.begin(), model.trials.end(), [&](const TuneTrial& trial) {
    return trial.status == ModelStatus::ok && trial.settings == settings;
  });
  return found == model.trials.end() ? nullptr : &*found;
}

std::string figures_of(const TuneTrial& trial) {
  std::string text;
  if (trial.p50) text += ", P50 " + format_duration(*trial.p50);
  if (trial.counted_peak())
    text += fmt::format(", {} {}", trial.gpu_peak ? "GPU peak" : "peak", format_bytes(*trial.counted_peak()));
  return text;
}

}  // namespace

std::string kept_as(const ModelResult& model, const TuneTrial& trial) {
  if (trial.status != ModelStatus::ok) return {};
  std::string kept;
  if (trial.settings == model.settings) kept = "fastest that fits";
  if (model.smallest_settings && trial.settings == *model.smallest_settings)
    kept = kept.empty() ? "smallest within 5 %" : "fastest and smallest";  // short: the row has figures, too
  return kept;
}

std::string difference(const RuntimeSettings& settings, const RuntimeSettings& base) {
  const std::string own = settings.describe(), other = base.describe();
  const auto base_words = split(other, ' ');
  std::string text;
  for (const auto word : split(own, ' '))
    if (std::find(base_words.begin(), base_words.end(), word) == base_words.end())
      text += fmt::format("{}{}", text.empty() ? "" : " ", word);
  return text;
}

std::string describe_tuning(const ModelResult& model) {
  if (model.trials.empty()) return {};
  const std::string tried = counted(static_cast<std::int64_t>(model.trials.size()), "setting");
  const TuneTrial* fastest = trial_of(model, model.settings);
  if (fastest == nullptr) return fmt::format("none of the {} tried succeeded", tried);
  const bool is_over = fastest->within_limit == false;  // a limit that refuses nothing; none stays within it
  std::string text = fmt::format("{} {} tried{}: {}{}", is_over ? "none of" : "fastest of", tried,
                                 is_over ? " stays within the limit; the best" : "",
                                 fastest->settings.describe(), figures_of(*fastest));
  const TuneTrial* smallest = model.smallest_settings ? trial_of(model, *model.smallest_settings) : nullptr;
  if (smallest == fastest) text += "; it is also the smallest within 5 %";
  if (smallest == nullptr || smallest == fastest) return text;
  const std::string change = difference(smallest->settings, fastest->settings);
  return text + fmt::format("; smallest within 5 %: {}{}", change.empty() ? "the same" : change,
                            figures_of(*smallest));
}

}  // namespace headroom::report
