#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/words.h"

namespace headroom::report {
namespace {

bool came_through(ModelStatus status) { return status == ModelStatus::ok; }
bool was_tried(ModelStatus status) { return status != ModelStatus::skipped; }

std::string describe_excess(const ModelResult& model, const std::optional<Limit>& limit) {
  std::string text = fmt::format("{}: over the limit", model.name);
  if (limit) text += fmt::format(" of {}", format_bytes(limit->bytes));
  if (model.memory.violations > 0) text += fmt::format(" in {}", counted(model.memory.violations, "sample"));
  if (const auto peak = peak_of(model)) text += fmt::format(", with a peak of {}", format_bytes(*peak));
  return text;
}

struct Tally {
  std::int64_t tried = 0, fallen = 0, over = 0;
  const ModelResult* largest = nullptr;  // by peak, of those that came through
  std::int64_t fine() const { return tried - fallen - over; }
};

Tally count_models(const std::vector<ModelResult>& models) {
  Tally tally;
  for (const ModelResult& model : models) {
    if (!was_tried(model.status)) continue;
    ++tally.tried;
    if (!came_through(model.status)) {
      ++tally.fallen;
      continue;
    }
    if (exceeded_limit(model)) ++tally.over;
    if (peak_of(model) && (tally.largest == nullptr || *peak_of(*tally.largest) < *peak_of(model)))
      tally.largest = &model;
  }
  return tally;
}

// "All 3 models"; with --parallel "Alone, all 3 models", because together they may not fit.
std::string all_of(const Tally& tally, const BenchResult& result) {
  if (tally.tried == 1)
    return std::find_if(result.models.begin(), result.models.end(),
                        [](const ModelResult& model) { return was_tried(model.status); })
        ->name;
  if (result.parallel)
    return tally.tried == 2 ? "Alone, both models" : fmt::format("Alone, all {} models", tally.tried);
  return tally.tried == 2 ? "Both models" : fmt::format("All {} models", tally.tried);
}

std::string sentence_when_all_fit(const Tally& tally, const BenchResult& result) {
  const std::string all = all_of(tally, result);
  std::string peak = "no peak was measured";
  if (tally.largest != nullptr) {
    peak = tally.tried == 1 ? fmt::format("its peak was {}", format_bytes(*peak_of(*tally.largest)))
                            : fmt::format("the largest peak was {} ({})",
                                          format_bytes(*peak_of(*tally.largest)), tally.largest->name);
    if (result.limit && result.limit->bytes > Bytes{})
      peak += fmt::format(", {} of it", words_for_share(static_cast<double>(peak_of(*tally.largest)->count) /
                                                        static_cast<double>(result.limit->bytes.count)));
  }
  if (!result.limit) return fmt::format("{} ran; no memory limit was set; {}", all, peak);
  const std::string limit = format_bytes(result.limit->bytes);
  if (result.limit->type == LimitType::unavailable)
    return fmt::format("{} ran below {}, but nothing enforced that limit; {}", all, limit, peak);
  return fmt::format("{} stayed inside the {} limit of {}; {}", all, name_of(result.limit->type), limit,
                     peak);
}

std::string sentence_when_some_did_not(const Tally& tally, const std::optional<Limit>& limit) {
  const std::string bound =
      limit ? fmt::format("the {} limit of {}", name_of(limit->type), format_bytes(limit->bytes)) : "";
  std::vector<std::string> parts;
  parts.push_back(fmt::format("{} of {} {}", tally.fine(), counted(tally.tried, "model"),
                              limit ? "stayed inside " + bound : "came through"));
  if (tally.over > 0) parts.push_back(fmt::format("{} exceeded it", tally.over));
  if (limit && tally.fallen > 0) parts.push_back(fmt::format("{} did not come through", tally.fallen));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

std::string describe_fall(const ModelResult& model) {
  std::string text = fmt::format("{}: {}", model.name, words_for(model.status));
  if (model.died_in) text += fmt::format(" {}", activity_after(*model.died_in));
  if (!model.error.empty()) text += ": " + model.error;
  return text;
}

Verdict verdict_of(const BenchResult& result) {
  Verdict verdict;
  for (const ModelResult& model : result.models) {
    if (!was_tried(model.status)) continue;
    if (!came_through(model.status))
      verdict.details.push_back(describe_fall(model));
    else if (exceeded_limit(model))
      verdict.details.push_back(describe_excess(model, result.limit));
  }
  if (result.parallel) {
    if (!result.parallel->within_limit)
      verdict.details.emplace_back("all at once: the models did not stay inside the limit");
    for (const ModelResult& model : result.parallel->together)
      if (was_tried(model.status) && !came_through(model.status))
        verdict.details.push_back("all at once: " + describe_fall(model));
  }
  if (result.pipeline && was_tried(result.pipeline->status) && !came_through(result.pipeline->status))
    verdict.details.push_back(fmt::format("pipeline: {}{}{}", words_for(result.pipeline->status),
                                          result.pipeline->error.empty() ? "" : ": ",
                                          result.pipeline->error));

  const Tally tally = count_models(result.models);
  if (tally.tried == 0)
    verdict.sentence = "No model was measured";
  else if (tally.fine() < tally.tried)
    verdict.sentence = sentence_when_some_did_not(tally, result.limit);
  else
    verdict.sentence = sentence_when_all_fit(tally, result);
  if (!verdict.details.empty())
    verdict.tone = Tone::bad;
  else if (tally.tried > 0 && result.limit && result.limit->type != LimitType::unavailable)
    verdict.tone = Tone::good;
  return verdict;
}

}  // namespace headroom::report
