// The Memory Safety Summary: the verdict first, then its evidence.
#include <fmt/format.h>

#include <algorithm>

#include "report/markdown_text.h"
#include "report/run/limit_words.h"
#include "report/run/markdown_sections.h"
#include "report/run/outcome.h"
#include "report/run/verdict.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr std::size_t kClosestShown = 5;

std::string_view sign_of_tone(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "✅";
    case Tone::neutral:
      return "ℹ️";
    case Tone::bad:
      return "❌";
  }
  return "";
}

std::int64_t total_violations(const BenchResult& result) {
  std::int64_t total = 0;
  for (const ModelResult& model : result.models) total += model.memory.violations;
  if (result.parallel)
    for (const ModelResult& model : result.parallel->together) total += model.memory.violations;
  if (result.pipeline) total += result.pipeline->memory.violations;
  if (result.pool) total += result.pool->memory.violations;
  return total;
}

std::string_view words_for_route(std::string_view outcome) {
  if (outcome == "escaped") return "**exceeded the limit**";
  if (outcome == "not_tried") return "not tried";
  return outcome;
}

std::string probe_table(const Limit& limit) {
  const bool tried = std::any_of(limit.routes.begin(), limit.routes.end(),
                                 [](const LimitRoute& route) { return route.outcome != "not_tried"; });
  if (!limit.routes.empty() && !tried && !refuses_memory(limit))
    return "No route was tried: this mechanism does not refuse memory.\n\n";
  MarkdownTable table(kAllColumns, {"Route", "Result", "Detail"});
  for (const LimitRoute& route : limit.routes)
    table.add({code(route.name), std::string(words_for_route(route.outcome)), escaped(route.detail)});
  if (table.empty()) return {};
  return "**Routes that the probe tried** before the run, each in its own child process:\n\n" + table.text();
}

std::string closest_to_limit(const BenchResult& result) {
  // The memory that the limit counts; resident memory without a limit or such a measurement.
  const auto any_against_limit = std::any_of(
      result.models.begin(), result.models.end(),
      [&](const ModelResult& model) { return limit_peak(model.memory, result.limit).has_value(); });
  const auto compared = [&](const ModelResult& model) {
    return any_against_limit ? limit_peak(model.memory, result.limit) : peak_of(model);
  };
  std::vector<const ModelResult*> models;
  for (const ModelResult& model : result.models)
    if (compared(model)) models.push_back(&model);
  std::stable_sort(models.begin(), models.end(),
                   [&](const ModelResult* a, const ModelResult* b) { return *compared(*a) > *compared(*b); });
  if (models.empty()) return {};
  std::string text = any_against_limit ? "**Models closest to the limit**:\n\n" : "**Largest peaks**:\n\n";
  for (std::size_t i = 0; i < std::min(models.size(), kClosestShown); ++i) {
    text += fmt::format("{}. **{}**: {}", i + 1, escaped(models[i]->name),
                        peak_against(*models[i], result.limit));
    if (outcome_of(*models[i]) != Outcome::ok) text += fmt::format(", {}", words_for_outcome(*models[i]));
    text += "\n";
  }
  return text + "\n";
}

}  // namespace

std::string memory_safety_section(const BenchResult& result) {
  const Verdict verdict = verdict_of(result);
  std::string text = "## 🔒 Memory Safety Summary\n\n";
  text +=
      fmt::format("{} **Overall Status**: {}.\n\n", sign_of_tone(verdict.tone), escaped(verdict.sentence));
  // Another bullet than that of the facts below: it keeps the two lists apart.
  for (const std::string& detail : verdict.details) text += fmt::format("* ❌ {}\n", escaped(detail));
  if (!verdict.details.empty()) text += "\n";
  if (result.limit) {
    const Limit& limit = *result.limit;
    text += fmt::format("- **Memory Limit**: {}\n", format_bytes(limit.bytes));
    text += fmt::format("- **Limit Type**: {}: {}\n", type_with_reason(limit), meaning_of(limit));
    text += fmt::format("- **Mechanism**: {}\n", words_for(limit.mechanism));
    if (const std::string notes = notes_on(limit, result.host); !notes.empty())
      text += fmt::format("- **Note**: {}\n", escaped(notes));
    // A group kills at the limit: no sample can show more, and 0 would read as if nothing had asked for more.
    const std::int64_t violations = total_violations(result);
    text += fmt::format("- **Total Violations**: {}\n\n", counts_by_group(limit) && violations == 0
                                                              ? "not counted: the kernel kills at the limit"
                                                              : std::to_string(violations));
    text += probe_table(limit);
  } else {
    text += "- **Memory Limit**: none (`--mem-limit` sets one)\n\n";
  }
  text += gpu_limit_lines(result);
  return text + closest_to_limit(result);
}

}  // namespace headroom::report
