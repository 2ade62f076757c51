// The screen at the end of `headroom bench`: the main figures, the verdict and warnings.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/display_width.h"
#include "report/run/limit_words.h"
#include "report/run/outcome.h"
#include "report/run/terminal_models.h"
#include "report/run/tuning_words.h"
#include "report/run/verdict.h"
#include "report/run/views.h"
#include "report/terminal_table.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr int kNarrowest = 40;  // narrower terminals get lines that the terminal wraps
constexpr std::size_t kMostNoisyNamed = 5;

// A sign and a sentence with one full stop; a runtime's error message may bring its own.
std::string sentence(std::string_view sign, std::string_view paint, const std::string& text, bool color,
                     int width) {
  const std::string_view end = text.ends_with('.') || text.ends_with(':') ? "" : ".";
  return fmt::format("{} {}\n", sign == " " ? " " : painted(sign, paint, color),
                     wrap(fmt::format("{}{}", text, end), width - 2, 2));
}

// One line for all models: on most machines most models vary, and a line for each would bury the rest.
std::string words_for_noise(const BenchResult& result) {
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

// In the account of the limit, where there is one.
std::string words_for_pipeline_peak(const BenchResult& result) {
  std::string resident = format_bytes(*result.pipeline->peak) + " resident";
  const auto counted = limit_peak(result.pipeline->memory, result.limit);
  if (counted && counts_by_reservation(*result.limit))
    return fmt::format("{} reserved against the limit, {}", format_bytes(*counted), resident);
  if (!counted || !counts_by_group(*result.limit)) return resident;
  return fmt::format("{} charged to the limit, {}", format_bytes(*counted), resident);
}

std::int64_t loads_of(const PoolResult& pool) {
  std::int64_t loads = 0;
  for (const PooledModel& model : pool.models) loads += model.loads;
  return loads;
}

std::int64_t requests_of(const PoolResult& pool) {
  std::int64_t requests = 0;
  for (const PooledModel& model : pool.models) requests += model.requests;
  return requests;
}

std::vector<std::string> remarks_of(const BenchResult& result) {
  std::vector<std::string> remarks;
  if (result.parallel && result.parallel->joint_peak)
    remarks.push_back(
        fmt::format("All at once: joint peak {}{}{}, sum of individual peaks {}",
                    result.parallel->joint_peak_is_lower_bound ? "at least " : "",
                    format_bytes(*result.parallel->joint_peak),
                    result.parallel->joint_peak_source == "pss_samples" ? " resident (PSS)" : "",
                    words_for(result.parallel->sum_of_peaks)));
  // The ledgers count all granted memory, so their sum is too low only if a model died early.
  const auto died = [](const ModelResult& model) { return model.status != ModelStatus::ok; };
  const bool some_died = result.parallel && std::any_of(result.parallel->together.begin(),
                                                        result.parallel->together.end(), died);
  if (result.parallel)
    for (const JointGpuMemory& gpu : result.parallel->gpu_memory)
      remarks.push_back(fmt::format(
          "All at once on {}: joint peak {}{}{}", gpu.device, some_died ? "at least " : "",
          words_for(gpu.joint_peak),
          gpu.sum_of_peaks ? ", sum of individual peaks " + format_bytes(*gpu.sum_of_peaks) : ""));
  if (result.pipeline && result.pipeline->peak)
    remarks.push_back(fmt::format("Pipeline of {}: {}, peak {}",
                                  counted(static_cast<std::int64_t>(result.pipeline->models.size()), "model"),
                                  result.pipeline->fps ? words_for_rate(result.pipeline->fps) + " FPS"
                                                       : std::string(words_for_outcome(*result.pipeline)),
                                  words_for_pipeline_peak(result)));
  if (result.pool && result.pool->frame)
    remarks.push_back(
        fmt::format("Pool of {} for {}{}: {} FPS, {} for {}, peak {}", format_bytes(result.pool->budget),
                    counted(static_cast<std::int64_t>(result.pool->models.size()), "model"),
                    result.pool->threads > 1 ? fmt::format(" and {} threads", result.pool->threads) : "",
                    words_for_rate(result.pool->fps), counted(loads_of(*result.pool), "load"),
                    counted(requests_of(*result.pool), "request"), words_for(result.pool->peak)));
  // A model that was only prepared has its trials in a table of their own.
  for (const ModelResult& model : result.models)
    if (const std::string tuning = describe_tuning(model);
        !tuning.empty() && outcome_of(model) != Outcome::prepared)
      remarks.push_back(fmt::format("{}: {}", model.name, tuning));
  return remarks;
}

std::vector<std::string> warnings_of(const BenchResult& result) {
  std::vector<std::string> warnings = result.warnings;
  // A hard limit that the machine's memory can reach needs no explanation here.
  const auto& limit = result.limit;
  if (limit && (limit->type != LimitType::hard || is_above_memory(*limit, result.host)))
    if (const std::string notes = notes_on(*limit, result.host); !notes.empty()) warnings.push_back(notes);
  if (const std::string noise = words_for_noise(result); !noise.empty()) warnings.push_back(noise);
  for (const ModelResult& model : result.models)
    for (const std::string& warning : model.warnings)
      if (!is_about_variation(warning)) warnings.push_back(model.name + ": " + warning);
  if (result.source && !result.source->skipped.empty())
    warnings.push_back(
        fmt::format("{} of the source could not be used; the report lists them",
                    counted(static_cast<std::int64_t>(result.source->skipped.size()), "item")));
  return warnings;
}

}  // namespace

std::string to_terminal(const BenchResult& result, bool color, int width) {
  width = std::max(width, kNarrowest);
  std::string text;
  if (!result.complete)
    text += sentence("!", kYellow, "This run was interrupted. Results so far:", color, width);
  text += models_table(result, color, width);
  text += phases_table(result, color, width);
  text += gpu_table(result, color, width);
  text += kinds_table(result, color, width);

  const Verdict verdict = verdict_of(result);
  constexpr std::array<std::string_view, 3> kSigns{"✓", "·", "✗"};
  constexpr std::array<std::string_view, 3> kPaints{kGreen, kYellow, kRed};
  const auto tone = static_cast<std::size_t>(verdict.tone);
  text += sentence(kSigns.at(tone), kPaints.at(tone), verdict.sentence, color, width);
  for (const std::string& detail : verdict.details) text += sentence(" ", "", detail, color, width);
  for (const std::string& remark : remarks_of(result)) text += sentence("·", kYellow, remark, color, width);
  for (const std::string& warning : warnings_of(result))
    text += sentence("!", kYellow, warning, color, width);
  return text;
}

}  // namespace headroom::report
