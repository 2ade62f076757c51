#include "report/run/run_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr double kNoisyVariation = 0.025;
constexpr std::int64_t kFewestForVariation = 10;

bool has_enough_frames(const ModelResult& model) {
  return model.inference && model.inference->n >= kFewestForVariation;
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

// The verdict.

// What the models are compared by: the account that the limit enforces, where it was measured.
std::optional<Bytes> compared_peak(const ModelResult& model, const std::optional<Limit>& limit) {
  const auto counted = limit_peak(model.memory, limit);
  return counted ? counted : peak_of(model);
}

struct Tally {
  std::int64_t measured = 0, fallen = 0, over = 0;  // fallen and over are among the measured
  std::int64_t prepared = 0;
  std::int64_t unfinished = 0;           // cut short or not reached
  const ModelResult* first = nullptr;    // of those that are not skipped
  const ModelResult* largest = nullptr;  // by peak, of those that came through
  std::int64_t all() const { return measured + prepared + unfinished; }
  std::int64_t fine() const { return measured - fallen - over; }
};

Tally count_models(const BenchResult& result) {
  Tally tally;
  for (const ModelResult& model : result.models) {
    const Outcome outcome = outcome_of(model);
    if (outcome == Outcome::skipped) continue;
    if (tally.first == nullptr) tally.first = &model;
    if (outcome == Outcome::prepared) ++tally.prepared;
    if (outcome == Outcome::cut_short || outcome == Outcome::not_reached) ++tally.unfinished;
    if (outcome == Outcome::fallen) ++tally.fallen;
    if (outcome == Outcome::over) ++tally.over;
    if (outcome != Outcome::ok && outcome != Outcome::over && outcome != Outcome::fallen) continue;
    ++tally.measured;
    if (outcome == Outcome::fallen || !compared_peak(model, result.limit)) continue;
    if (tally.largest == nullptr ||
        *compared_peak(*tally.largest, result.limit) < *compared_peak(model, result.limit))
      tally.largest = &model;
  }
  return tally;
}

// "All 3 models", "Both models", or the name of the only one.
std::string all_models(std::int64_t count, const Tally& tally) {
  if (count == 1) return tally.first->name;
  return count == 2 ? "Both models" : fmt::format("All {} models", count);
}

std::string largest_peak(const Tally& tally, const std::optional<Limit>& limit) {
  if (tally.largest == nullptr) return "No peak was measured";
  const std::string whose =
      tally.all() == 1 ? "Peak:" : fmt::format("Largest peak: {},", tally.largest->name);
  return fmt::format("{} {}", whose, peak_against(*tally.largest, limit));
}

std::string_view words_for_no_limit(const BenchResult& result) {
  return result.gpu_limit ? "No limit on host memory" : "No memory limit";
}

std::string sentence_when_all_fit(const std::string& subject, const Tally& tally, const BenchResult& result) {
  const std::optional<Limit>& limit = result.limit;
  const std::string peak = largest_peak(tally, limit);
  if (!limit) return fmt::format("{} ran. {}. {}", subject, words_for_no_limit(result), peak);
  const std::string size = format_bytes(limit->bytes);
  if (limit->type == LimitType::unavailable)
    return fmt::format("{} ran below {}, but nothing enforced this limit. {}", subject, size, peak);
  return fmt::format("{} stayed inside the {} limit of {}. {}", subject, name_of(limit->type), size, peak);
}

std::string sentence_when_some_did_not(const Tally& tally, const std::optional<Limit>& limit) {
  std::vector<std::string> parts;
  parts.push_back(fmt::format("{} of {} ", tally.fine(), counted(tally.measured, "model")));
  if (limit && limit->type == LimitType::unavailable)
    parts.back() +=
        fmt::format("stayed below {}, but nothing enforced this limit", format_bytes(limit->bytes));
  else if (limit)
    parts.back() +=
        fmt::format("stayed inside the {} limit of {}", name_of(limit->type), format_bytes(limit->bytes));
  else
    parts.back() += "succeeded";
  if (tally.over > 0) parts.push_back(fmt::format("{} exceeded it", tally.over));
  if (limit && tally.fallen > 0) parts.push_back(fmt::format("{} failed", tally.fallen));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string sentence_of_measured(const Tally& tally, const BenchResult& result) {
  if (tally.fine() < tally.measured) return sentence_when_some_did_not(tally, result.limit);
  std::string subject = all_models(tally.measured, tally);
  const auto& limit = result.limit;
  if (result.parallel && result.parallel->within_limit == false && tally.measured > 1 && limit &&
      limit->type != LimitType::unavailable)
    return fmt::format("All at once, the models did not fit into the {} limit of {}. Alone, each fits. {}",
                       name_of(limit->type), format_bytes(limit->bytes), largest_peak(tally, limit));
  // The sentence describes the models alone: all at once, one of them may have failed for another reason.
  if (result.parallel && tally.measured > 1) {
    subject.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(subject.front())));
    subject = "Alone, " + subject;
  }
  return sentence_when_all_fit(subject, tally, result);
}

std::string sentence_when_cut_short(const Tally& tally, const BenchResult& result) {
  std::string text;
  if (tally.measured == 0)
    text = tally.all() == 1 ? tally.first->name + " was not measured"
                            : fmt::format("None of the {} models was measured", tally.all());
  else if (tally.measured == tally.all())
    text = fmt::format("{} {} measured", all_models(tally.all(), tally), tally.all() == 1 ? "was" : "were");
  else
    text = fmt::format("{} of {} models {} measured", tally.measured, tally.all(),
                       tally.measured == 1 ? "was" : "were");
  text += ". The run was cut short";
  if (tally.measured == 0) return text;
  if (tally.fine() < tally.measured) return text + ". " + sentence_when_some_did_not(tally, result.limit);
  if (!result.limit)
    return fmt::format("{}. {}. {}", text, words_for_no_limit(result), largest_peak(tally, result.limit));
  return text + ". " + sentence_when_all_fit(tally.measured == 1 ? "It" : "They", tally, result);
}

std::string sentence_when_prepared(const Tally& tally) {
  if (tally.prepared == tally.all())
    return fmt::format("{} {} prepared but not measured", all_models(tally.all(), tally),
                       tally.all() == 1 ? "is" : "are");
  return fmt::format("{} of {} models {} prepared but not measured", tally.prepared, tally.all(),
                     tally.prepared == 1 ? "is" : "are");
}

struct GpuPeak {
  std::string model, device;
  Bytes peak, limit;
  double share() const {
    return static_cast<double>(peak.count) / static_cast<double>(std::max(limit.count, std::int64_t{1}));
  }
};

// The peak of a model alone that was closest to its device's limit.
std::optional<GpuPeak> closest_gpu_peak(const BenchResult& result) {
  std::optional<GpuPeak> closest;
  for (const ModelResult& model : result.models)
    for (const GpuMemory& gpu : model.gpu_memory) {
      const auto peak = std::max(gpu.load_peak, gpu.run_peak);
      if (outcome_of(model) == Outcome::fallen || !gpu.limit || !peak) continue;
      const GpuPeak found{model.name, gpu.device, *peak, *gpu.limit};
      if (!closest || closest->share() < found.share()) closest = found;
    }
  return closest;
}

bool is_over_gpu_limit(const BenchResult& result) {
  const auto is_over = [](const auto& run) {  // of one that failed, a request was refused
    return run.status == ModelStatus::ok &&
           std::ranges::any_of(run.gpu_memory, [](auto& gpu) { return gpu.within_limit == false; });
  };
  return std::ranges::any_of(result.models, is_over) ||
         (result.parallel &&
          std::ranges::any_of(result.parallel->gpu_memory, &JointGpuMemory::is_over_limit)) ||
         (result.pipeline && is_over(*result.pipeline)) || (result.pool && is_over(*result.pool));
}

// "400.0 MiB", or the limit of each device if they differ.
std::string gpu_limit_size(const BenchResult& result) {
  std::map<std::string, Bytes> limits;
  for (const ModelResult& model : result.models)
    for (const GpuMemory& gpu : model.gpu_memory)
      if (gpu.limit) limits.emplace(gpu.device, *gpu.limit);
  const auto is_first = [&](const auto& device) { return device.second == limits.begin()->second; };
  if (std::ranges::all_of(limits, is_first)) return format_bytes(result.gpu_limit->bytes);
  std::string text;
  for (const auto& device : limits)
    text += fmt::format("{}{} on {}", text.empty() ? "" : " and ", format_bytes(device.second), device.first);
  return text;
}

std::string sentence_of_gpu_limit(const BenchResult& result) {
  const Limit& limit = *result.gpu_limit;
  const std::string size = gpu_limit_size(result);
  std::string text =
      limit.type == LimitType::unavailable
          ? fmt::format("Nothing enforced the GPU memory limit of {}", size)
          : fmt::format("GPU memory {} the {} limit of {}",
                        is_over_gpu_limit(result) ? "exceeded" : "stayed inside", name_of(limit.type), size);
  if (const auto peak = closest_gpu_peak(result))
    text += fmt::format(". Closest to it: {}, {} on {}, {} of its limit", peak->model,
                        format_bytes(peak->peak), peak->device, words_for_share(peak->share()));
  return text;
}

std::string sentence_of(const Tally& tally, const BenchResult& result) {
  if (tally.all() == 0) return "No model was measured";
  if (tally.unfinished > 0 || (!result.complete && tally.measured > 0))
    return sentence_when_cut_short(tally, result);
  if (tally.prepared > 0) return sentence_when_prepared(tally);
  return sentence_of_measured(tally, result);
}

// "text: out of memory while loading the model: the kernel killed it at the limit of 256.0 MiB".
std::string describe_fall(const ModelResult& model) {
  std::string text = fmt::format("{}: {}", model.name, words_for(model.status));
  if (model.died_in) text += fmt::format(" {}", activity_after(*model.died_in));
  if (!model.error.empty()) text += ": " + model.error;
  return text;
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

bool was_cut_short(ModelStatus status, std::string_view error) {
  return status == ModelStatus::failed && error == kCutShort;
}

std::string_view words_for_outcome(ModelStatus status, std::string_view error) {
  if (was_cut_short(status, error)) return "cut short";
  return status == ModelStatus::skipped && error == kNotReached ? "not reached" : words_for(status);
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
  std::vector<const ModelResult*> noisy;
  for (const ModelResult& model : result.models)
    if (has_enough_frames(model) && model.inference->cv > kNoisyVariation) noisy.push_back(&model);
  if (noisy.empty()) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min(noisy.size(), kMostNoisyNamed); ++i)
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", noisy[i]->name,
                         words_for_share(noisy[i]->inference->cv));
  if (noisy.size() > kMostNoisyNamed) names += fmt::format(" and {} more", noisy.size() - kMostNoisyNamed);
  const auto judged = std::ranges::count_if(result.models, has_enough_frames);
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

std::optional<double> share_of_board(const std::optional<Bytes>& peak, const HostInfo& host) {
  if (!peak || host.ram_total <= Bytes{}) return std::nullopt;
  return static_cast<double>(peak->count) / static_cast<double>(host.ram_total.count);
}

std::optional<double> share_of_gpu(const GpuMemory& gpu) {
  const auto peak = std::max(gpu.load_peak, gpu.run_peak);
  if (!peak || !gpu.total || *gpu.total <= Bytes{}) return std::nullopt;
  return static_cast<double>(peak->count) / static_cast<double>(gpu.total->count);
}

std::vector<std::string> words_for_shares(const BenchResult& result) {
  std::optional<Bytes> resident;
  std::map<std::string, const GpuMemory*> gpus;  // the one with the largest peak, by device
  for (const ModelResult& model : result.models) {
    resident = std::max(resident, peak_of(model));
    for (const GpuMemory& gpu : model.gpu_memory) {
      const GpuMemory*& largest = gpus[gpu.device];
      if (largest == nullptr || share_of_gpu(*largest) < share_of_gpu(gpu)) largest = &gpu;
    }
  }
  std::vector<std::string> lines;
  if (const auto share = share_of_board(resident, result.host))
    lines.push_back(fmt::format("Largest resident peak: {}, {} of this machine's {}", format_bytes(*resident),
                                words_for_share(*share), format_bytes(result.host.ram_total)));
  for (const auto& entry : gpus)
    if (const auto share = share_of_gpu(*entry.second))
      lines.push_back(fmt::format("Largest peak on {}: {}, {} of its {}", entry.first,
                                  format_bytes(*std::max(entry.second->load_peak, entry.second->run_peak)),
                                  words_for_share(*share), format_bytes(*entry.second->total)));
  return lines;
}

std::optional<Bytes> own_memory_of_runtime(const ModelMemory& memory) {
  if (!memory.start || !memory.runtime || *memory.runtime < *memory.start) return std::nullopt;
  return *memory.runtime - *memory.start;
}

std::vector<std::string> words_for_runtimes(const BenchResult& result) {
  std::map<std::string, Bytes> largest;
  for (const ModelResult& model : result.models)
    if (const auto own = own_memory_of_runtime(model.memory); own && !model.backend.empty())
      largest[model.backend] = std::max(largest[model.backend], *own);
  constexpr std::pair<std::string_view, std::string_view> kTitles[] = {
      {"libtorch", "LibTorch"},
      {"onnxruntime", "ONNX Runtime"},
      {"onnxruntime_tensorrt", "ONNX Runtime (TensorRT)"},
      {"tensorrt", "TensorRT"}};
  std::vector<std::string> lines;
  for (const auto& entry : largest) {
    const auto* const known =
        std::ranges::find(kTitles, entry.first, [](auto& title) { return title.first; });
    lines.push_back(fmt::format("{}'s own code and tables: {} in each process, before a model is loaded",
                                known == std::end(kTitles) ? entry.first : known->second,
                                format_bytes(entry.second)));
  }
  return lines;
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
  const std::string tried = counted(std::ssize(model.trials), "setting");
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

std::string describe_excess(const ModelResult& model, const std::optional<Limit>& limit) {
  std::string text = fmt::format("{}: over the limit", model.name);
  if (limit) text += fmt::format(" of {}", format_bytes(limit->bytes));
  if (model.memory.violations > 0) text += fmt::format(" in {}", counted(model.memory.violations, "sample"));
  if (const std::string peak = peak_against(model, limit); !peak.empty()) text += ", with a peak of " + peak;
  return text;
}

// GPUs have limits of their own, which the sentence says nothing of. What did not come through has its
// reason.
void describe_gpu_excess(std::string_view whose, ModelStatus status, const std::vector<GpuMemory>& gpus,
                         std::vector<std::string>& details) {
  if (status != ModelStatus::ok) return;
  for (const GpuMemory& gpu : gpus) {
    if (gpu.within_limit != false || !gpu.limit) continue;
    const auto peak = std::max(gpu.load_peak, gpu.run_peak);
    details.push_back(fmt::format("{}: over the limit of {} of {}{}", whose, format_bytes(*gpu.limit),
                                  gpu.device,
                                  peak ? fmt::format(", with a peak of {}", format_bytes(*peak)) : ""));
  }
}

// Of a process that had all models.
template <class All>
void describe_together(std::string_view whose, const All& all, const std::optional<Limit>& limit,
                       std::vector<std::string>& details) {
  if (all.status != ModelStatus::ok && all.status != ModelStatus::skipped &&
      !was_cut_short(all.status, all.error))
    details.push_back(fmt::format("{}: {}{}{}{}", whose, words_for(all.status),
                                  all.died_in ? fmt::format(" {}", activity_after(*all.died_in)) : "",
                                  all.error.empty() ? "" : ": ", all.error));
  else if (all.memory.within_limit == false)
    details.push_back(
        fmt::format("{}: over the limit with {}", whose, words_for(limit_peak(all.memory, limit))));
  describe_gpu_excess(whose, all.status, all.gpu_memory, details);
}

// One of host or GPU memory; none that nothing enforced.
bool has_enforced_limit(const BenchResult& result) {
  const auto is_enforced = [](const Limit& limit) { return limit.type != LimitType::unavailable; };
  if (!result.limit && !result.gpu_limit) return false;
  return (!result.limit || is_enforced(*result.limit)) &&
         (!result.gpu_limit || is_enforced(*result.gpu_limit));
}

Verdict verdict_of(const BenchResult& result) {
  Verdict verdict;
  for (const ModelResult& model : result.models) {
    if (outcome_of(model) == Outcome::fallen) verdict.details.push_back(describe_fall(model));
    if (outcome_of(model) == Outcome::over) verdict.details.push_back(describe_excess(model, result.limit));
    describe_gpu_excess(model.name, model.status, model.gpu_memory, verdict.details);
  }
  if (result.parallel) {
    if (result.parallel->within_limit == false)
      verdict.details.emplace_back(fmt::format(
          "all at once: the models did not stay inside the limit{}",
          result.parallel->joint_peak && result.parallel->joint_peak_source == "pss_samples"
              ? fmt::format(": {} resident together (PSS)", format_bytes(*result.parallel->joint_peak))
              : ""));
    for (const JointGpuMemory& gpu : result.parallel->gpu_memory)
      if (gpu.is_over_limit())
        verdict.details.emplace_back(
            fmt::format("all at once: {} of {} in use at the same time, over the limit of {}",
                        format_bytes(*gpu.joint_peak), gpu.device, format_bytes(*gpu.limit)));
    for (const ModelResult& model : result.parallel->together)
      if (outcome_of(model) == Outcome::fallen)
        verdict.details.push_back("all at once: " + describe_fall(model));
  }
  if (result.pipeline) describe_together("pipeline", *result.pipeline, result.limit, verdict.details);
  if (result.pool) describe_together("pool", *result.pool, result.limit, verdict.details);
  const Tally tally = count_models(result);
  verdict.sentence = sentence_of(tally, result);
  if (result.gpu_limit && tally.measured > 0) verdict.sentence += ". " + sentence_of_gpu_limit(result);
  const bool all_measured = result.complete && tally.measured > 0 && tally.measured == tally.all();
  if (!verdict.details.empty())
    verdict.tone = Tone::bad;
  else if (all_measured && has_enforced_limit(result))
    verdict.tone = Tone::good;
  return verdict;
}

}  // namespace headroom::report
