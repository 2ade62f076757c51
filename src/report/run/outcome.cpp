#include "report/run/outcome.h"

#include <algorithm>

#include "report/words.h"

namespace headroom::report {
namespace {

constexpr double kNoisyVariation = 0.025;
constexpr std::int64_t kFewestForVariation = 10;

bool has_enough_frames(const ModelResult& model) {
  return model.inference && model.inference->n >= kFewestForVariation;
}

// Of a process that had all models.
template <class All>
bool is_cut_short(const All& all) {
  return all.status == ModelStatus::failed && all.error == kCutShort;
}

template <class All>
std::string_view words_for_all(const All& all) {
  if (is_cut_short(all)) return "cut short";
  if (all.status == ModelStatus::skipped && all.error == kNotReached) return "not reached";
  return words_for(all.status);
}

}  // namespace

Outcome outcome_of(const ModelResult& model) {
  if (model.status == ModelStatus::skipped)
    return model.error == kNotReached ? Outcome::not_reached : Outcome::skipped;
  if (model.status != ModelStatus::ok) return model.error == kCutShort ? Outcome::cut_short : Outcome::fallen;
  if (exceeded_limit(model)) return Outcome::over;
  // The memory of one that was only prepared is its warm-up's.
  return model.inference || model.frames > 0 ? Outcome::ok : Outcome::prepared;
}

std::string_view words_for_outcome(const ModelResult& model) {
  switch (outcome_of(model)) {
    case Outcome::over:
      return "over the limit";
    case Outcome::prepared:
      return "prepared";
    case Outcome::cut_short:
      return "cut short";
    case Outcome::not_reached:
      return "not reached";
    default:
      return words_for(model.status);
  }
}

bool was_cut_short(const PipelineResult& pipeline) { return is_cut_short(pipeline); }
bool was_cut_short(const PoolResult& pool) { return is_cut_short(pool); }

std::string_view words_for_outcome(const PipelineResult& pipeline) { return words_for_all(pipeline); }
std::string_view words_for_outcome(const PoolResult& pool) { return words_for_all(pool); }

bool was_measured(const ModelResult& model) {
  const Outcome outcome = outcome_of(model);
  return outcome == Outcome::ok || outcome == Outcome::over || outcome == Outcome::fallen;
}

std::vector<const ModelResult*> in_reading_order(const std::vector<ModelResult>& models) {
  std::vector<const ModelResult*> order;
  for (const ModelResult& model : models) order.push_back(&model);
  std::stable_partition(order.begin(), order.end(),
                        [](const ModelResult* model) { return model->status != ModelStatus::skipped; });
  return order;
}

std::vector<const ModelResult*> noisy_models(const std::vector<ModelResult>& models) {
  std::vector<const ModelResult*> noisy;
  for (const ModelResult& model : models)
    if (has_enough_frames(model) && model.inference->cv > kNoisyVariation) noisy.push_back(&model);
  return noisy;
}

std::int64_t models_judged_for_noise(const std::vector<ModelResult>& models) {
  return std::count_if(models.begin(), models.end(), has_enough_frames);
}

std::vector<std::string> warnings_of(const ModelResult& model) {
  std::vector<std::string> warnings;
  for (const std::string& warning : model.warnings)
    if (!is_about_variation(warning) || has_enough_frames(model)) warnings.push_back(warning);
  return warnings;
}

bool is_about_variation(std::string_view warning) { return warning.starts_with("inference latency varies"); }

}  // namespace headroom::report
