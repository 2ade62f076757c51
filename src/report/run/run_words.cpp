#include "report/run/run_words.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/text.h"
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

std::string size_of_probe(const Limit& limit) {
  if (limit.bytes <= kLargestProbe) return "with this limit";
  return fmt::format("with a limit of {} instead of {}, by the same mechanism", format_bytes(kLargestProbe),
                     format_bytes(limit.bytes));
}

// Settings that were given back after every trial failed are the runtime's own and were not found by tuning.
const TuneTrial* trial_of(const ModelResult& model, const RuntimeSettings& settings) {
  const auto found = std::ranges::find_if(model.trials, [&](const TuneTrial& trial) {
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

std::vector<const ModelResult*> noisy_models(const std::vector<ModelResult>& models) {
  std::vector<const ModelResult*> noisy;
  for (const ModelResult& model : models)
    if (has_enough_frames(model) && model.inference->cv > kNoisyVariation) noisy.push_back(&model);
  return noisy;
}

std::int64_t models_judged_for_noise(const std::vector<ModelResult>& models) {
  return std::ranges::count_if(models, has_enough_frames);
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
  const Outcome outcome = outcome_of(model);
  if (outcome == Outcome::over) return "over the limit";
  if (outcome == Outcome::prepared) return "prepared";
  if (outcome == Outcome::cut_short) return "cut short";
  return outcome == Outcome::not_reached ? "not reached" : words_for(model.status);
}

bool was_cut_short(const PipelineResult& pipeline) { return is_cut_short(pipeline); }
bool was_cut_short(const PoolResult& pool) { return is_cut_short(pool); }

std::string_view words_for_outcome(const PipelineResult& pipeline) { return words_for_all(pipeline); }
std::string_view words_for_outcome(const PoolResult& pool) { return words_for_all(pool); }

bool was_measured(const ModelResult& model) {
  const Outcome outcome = outcome_of(model);
  return outcome == Outcome::ok || outcome == Outcome::over || outcome == Outcome::fallen;
}

bool any_prepared(const std::vector<ModelResult>& models) {
  return std::ranges::any_of(models, [](auto& model) { return outcome_of(model) == Outcome::prepared; });
}

std::vector<const ModelResult*> in_reading_order(const std::vector<ModelResult>& models) {
  std::vector<const ModelResult*> order;
  for (const ModelResult& model : models) order.push_back(&model);
  std::stable_partition(order.begin(), order.end(),
                        [](const ModelResult* model) { return model->status != ModelStatus::skipped; });
  return order;
}

std::string words_for_noise(const BenchResult& result) {
  constexpr std::size_t kMostNoisyNamed = 5;
  const auto noisy = noisy_models(result.models);
  if (noisy.empty()) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min(noisy.size(), kMostNoisyNamed); ++i)
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", noisy[i]->name,
                         words_for_share(noisy[i]->inference->cv));
  if (noisy.size() > kMostNoisyNamed) names += fmt::format(" and {} more", noisy.size() - kMostNoisyNamed);
  const std::int64_t judged = models_judged_for_noise(result.models);
  constexpr std::string_view kNoisy = "Latency is noisy (standard deviation over 2.5 % of the mean)";
  if (judged == 1) return fmt::format("{}: {}", kNoisy, names);
  return fmt::format("{} for {} of {} models: {}", kNoisy, noisy.size(), judged, names);
}

std::vector<std::string> warnings_of(const ModelResult& model) {
  std::vector<std::string> warnings;
  for (const std::string& warning : model.warnings)
    if (!is_about_variation(warning) || has_enough_frames(model)) warnings.push_back(warning);
  return warnings;
}

bool is_about_variation(std::string_view warning) { return warning.starts_with("inference latency varies"); }

bool counts_by_group(const Limit& limit) {
  return limit.mechanism == LimitMechanism::cgroup_v1 || limit.mechanism == LimitMechanism::cgroup_v2;
}

bool counts_by_reservation(const Limit& limit) { return limit.mechanism == LimitMechanism::rlimit_data; }

std::string share_of(Bytes peak, const Limit& limit) {
  if (limit.bytes <= Bytes{}) return std::string(kAbsent);
  return words_for_share(static_cast<double>(peak.count) / static_cast<double>(limit.bytes.count));
}

std::string peak_against(const ModelResult& model, const std::optional<Limit>& limit) {
  const auto resident = peak_of(model);
  const auto counted = limit_peak(model.memory, limit);
  if (!counted) return resident ? format_bytes(*resident) + " resident" : std::string();
  const bool by_reservation = counts_by_reservation(*limit);
  if (!counts_by_group(*limit) && !by_reservation)
    return fmt::format("{} resident, {} of the limit", format_bytes(*counted), share_of(*counted, *limit));
  std::string text = fmt::format("{} {}, {} of it", format_bytes(*counted),
                                 by_reservation ? "reserved against the limit" : "charged to the limit",
                                 share_of(*counted, *limit));
  if (resident) text += fmt::format(" (resident {})", format_bytes(*resident));
  return text;
}

bool was_stopped_at_limit(const ModelResult& model, const Limit& limit) {
  return model.status == ModelStatus::oom && exceeded_limit(model) && counts_by_group(limit);
}

bool resident_is_above(const ModelResult& model, const std::optional<Limit>& limit) {
  if (!limit || (!counts_by_group(*limit) && !counts_by_reservation(*limit))) return false;
  const auto resident = peak_of(model);
  const auto counted = limit_peak(model.memory, limit);
  return resident && counted && *resident > limit->bytes && *counted <= limit->bytes;
}

std::string meaning_of(const Limit& limit) {
  switch (limit.type) {
    case LimitType::hard:
      return fmt::format(
          "before this run, the probe tried every route by which a process can allocate memory; each was "
          "refused or killed ({})",
          size_of_probe(limit));
    case LimitType::soft:
      if (has_unproved_cuda(limit))
        return "CUDA memory can exceed the limit; the probe's table shows which host routes were stopped";
      if (limit.mechanism == LimitMechanism::watchdog)
        return "a watchdog monitors memory; a model that exceeds the limit continues and is marked";
      return fmt::format(
          "before this run, a route exceeded the limit or could not be tried ({}); a model that exceeds the "
          "limit continues and is marked",
          size_of_probe(limit));
    case LimitType::unavailable:
      return "nothing on this machine enforces the limit; memory was only measured";
  }
  return {};
}

bool refuses_memory(const Limit& limit) {
  return limit.mechanism != LimitMechanism::none && limit.mechanism != LimitMechanism::watchdog;
}

bool is_above_memory(const Limit& limit, const HostInfo& host) {
  return host.ram_total > Bytes{} && limit.bytes > host.ram_total;
}

std::string notes_on(const Limit& limit, const HostInfo& host) {
  constexpr std::string_view kMoreThanMemory = "more than this machine's memory";
  if (!is_above_memory(limit, host) || limit.note.find(kMoreThanMemory) != std::string::npos)
    return limit.note;
  return fmt::format("the limit of {} is {} of {}{}{}", format_bytes(limit.bytes), kMoreThanMemory,
                     format_bytes(host.ram_total), limit.note.empty() ? "" : "; ", limit.note);
}

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
    if (std::ranges::find(base_words, word) == base_words.end())
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
