// The run of all models in a pool (--pool).
#include <fmt/format.h>

#include <algorithm>

#include "report/markdown_text.h"
#include "report/run/markdown_sections.h"
#include "report/run/outcome.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr const char* kThreads =
    "The models of a frame run at the same time and share the cores, so their latencies are higher. A "
    "request may also wait for memory that another model uses.\n\n";

std::string words_for_samples(const PoolResult& pool) {
  if (pool.samples == 0) return {};
  if (pool.samples_over == 0) return fmt::format("✅ none of {} samples over the budget", pool.samples);
  return fmt::format("❌ {} of {} samples over the budget", pool.samples_over, pool.samples);
}

bool pool_lacks_bound(const PoolResult& pool) {
  return lacks_bound(pool.frame) ||
         std::any_of(pool.models.begin(), pool.models.end(), [](const PooledModel& model) {
           return lacks_bound(model.inference) || lacks_bound(model.wait);
         });
}

}  // namespace

std::string pool_section(const BenchResult& result) {
  if (!result.pool) return {};
  const PoolResult& pool = *result.pool;
  std::string text = "## Model Pool\n\n";
  add_line(
      text, "Status",
      fmt::format("{}{}{}", words_for_outcome(pool), pool.error.empty() ? "" : ": ", escaped(pool.error)));
  add_line(text, "Budget", format_bytes(pool.budget));
  if (pool.threads > 1) add_line(text, "Requested by", fmt::format("{} threads", pool.threads));
  if (pool.all_at_once)
    add_line(text, "All models at once",
             fmt::format("{}, including {} for runtime and frames", format_bytes(*pool.all_at_once),
                         words_for(pool.baseline)));
  if (pool.peak)
    add_line(text, "Peak", fmt::format("**{}**, {}", format_bytes(*pool.peak), words_for_samples(pool)));
  if (pool.fps) add_line(text, "FPS", words_for_rate(pool.fps));
  if (pool.frame)
    add_line(text, "One frame, loads included",
             fmt::format("{}, max {}", percentiles_of(*pool.frame), format_duration(pool.frame->max)));
  if (pool.load_time)
    add_line(text, "Load time",
             fmt::format("{}, including {} to reload evicted models", format_duration(*pool.load_time),
                         words_for(pool.reload_time)));
  add_limit_line(text, pool.memory, result.limit);
  text += "\n";
  MarkdownTable table(1, {"Model", "Requested", "Requests", "Hits", "Loads", "Evictions", "Failed", "Memory",
                          "Load P50", "Wait P50", "Wait P99", "P50", "P99"});
  for (const PooledModel& model : pool.models)
    table.add({escaped(model.name) + (model.isolated ? " (own process)" : ""),
               model.every == 1 ? "every frame" : fmt::format("1 in {}", model.every),
               std::to_string(model.requests), std::to_string(model.hits), std::to_string(model.loads),
               std::to_string(model.evictions), std::to_string(model.refusals + model.failures),
               words_for(model.charge), p50_of(model.load), p50_of(model.wait), p99_of(model.wait),
               p50_of(model.inference), p99_of(model.inference)});
  if (table.empty()) return text;
  text += table.text();
  if (pool_lacks_bound(pool)) text += footnote_on_bounds();
  return text +
         "The pool starts empty, so these figures include each model's first load. *Memory* is what the pool "
         "measured at the model's last load. *Wait* is the delay of a request whose model was not loaded: "
         "evictions and the load.\n\n" +
         std::string(pool.threads > 1 ? kThreads : "");
}

}  // namespace headroom::report
