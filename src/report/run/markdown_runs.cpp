// The runs of several models: all at once (--parallel), and all in one process (--pipeline).

#include <fmt/format.h>
#include <algorithm>

#include "report/run/markdown_sections.h"
#include "report/run/run_words.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {

namespace {

bool pipeline_lacks_bound(const PipelineResult& pipeline) {
  return lacks_bound(pipeline.frame) || std::ranges::any_of(pipeline.models, [](const PipelineModel& model) {
           return lacks_bound(model.inference);
         });
}

std::string words_for_common_limit(const ParallelResult& parallel) {
  if (!parallel.within_limit) return "; unknown whether the models stayed inside it: the run ended early";
  if (!*parallel.within_limit) return " ❌ exceeded";
  return parallel.joint_peak_source == "pss_samples" ? " ✅ no sample was over the limit" : " ✅ not exceeded";
}

// A group is charged with a page of a file where it read it first, so mapped weights may be missing in its
// peak.
std::string words_for_pages_of_others(const ParallelResult& parallel) {
  constexpr double kWorthTelling = 1.05;
  if (!parallel.joint_share_peak || !parallel.joint_peak || parallel.joint_peak_source == "pss_samples")
    return {};
  const double share = static_cast<double>(parallel.joint_share_peak->count);
  if (share < kWorthTelling * static_cast<double>(parallel.joint_peak->count)) return {};
  return fmt::format("; {} with file pages charged to other groups (proportional shares)",
                     format_bytes(*parallel.joint_share_peak));
}

// The run of all models in a pool (--pool).

constexpr const char* kThreads =
    "The models of a frame run at the same time and share the cores, so their latencies are higher. A "
    "request may also wait for memory that another model uses.\n\n";

std::string words_for_samples(const PoolResult& pool) {
  if (pool.samples == 0) return {};
  if (pool.samples_over == 0) return fmt::format("✅ none of {} samples over the budget", pool.samples);
  return fmt::format("❌ {} of {} samples over the budget", pool.samples_over, pool.samples);
}

bool pool_lacks_bound(const PoolResult& pool) {
  return lacks_bound(pool.frame) || std::ranges::any_of(pool.models, [](const PooledModel& model) {
           return lacks_bound(model.inference) || lacks_bound(model.wait);
         });
}

}  // namespace

std::string parallel_section(const BenchResult& result) {
  if (!result.parallel) return {};
  const ParallelResult& parallel = *result.parallel;
  std::string text = "## All Models at Once\n\n";
  add_line(text, "Sum of individual peaks", words_for(parallel.sum_of_peaks));
  std::string joint = words_for(parallel.joint_peak);
  if (parallel.joint_peak_is_lower_bound) joint = "at least " + joint;
  if (!parallel.joint_peak_source.empty()) joint += fmt::format(" ({})", code(parallel.joint_peak_source));
  add_line(text, "Joint peak", joint + words_for_pages_of_others(parallel));
  if (result.limit)
    add_line(text, "Common limit",
             fmt::format("{}{}", format_bytes(result.limit->bytes), words_for_common_limit(parallel)));
  text += "\n";
  MarkdownTable table(2, {"Model", "Together", "FPS alone", "FPS together", "P50 alone", "P50 together",
                          "Run peak alone", "Run peak together"});
  for (const ModelResult& together : parallel.together) {
    static const ModelResult kNotAlone;
    const ModelResult* alone = &kNotAlone;
    for (const ModelResult& model : result.models)
      if (model.name == together.name) alone = &model;
    table.add({escaped(together.name), fmt::format("{} {}", sign_of(together), words_for_outcome(together)),
               words_for_rate(alone->fps), words_for_rate(together.fps), p50_of(alone->inference),
               p50_of(together.inference), words_for(alone->memory.run_peak),
               words_for(together.memory.run_peak)});
  }
  return text + (table.empty() ? "" : table.text());
}

std::string pipeline_section(const BenchResult& result) {
  if (!result.pipeline) return {};
  const PipelineResult& pipeline = *result.pipeline;
  std::string text = "## Full Pipeline in One Process\n\n";
  add_line(text, "Status",
           fmt::format("{}{}{}", words_for_outcome(pipeline), pipeline.error.empty() ? "" : ": ",
                       escaped(pipeline.error)));
  add_line(text, "Frames", std::to_string(pipeline.frames));
  if (pipeline.fps) add_line(text, "FPS", words_for_rate(pipeline.fps));
  if (pipeline.frame) add_line(text, "One frame through all models", percentiles_of(*pipeline.frame));
  add_line(text, "Memory",
           fmt::format("runtime {}, all models loaded {}, **peak {}**", words_for(pipeline.runtime),
                       words_for(pipeline.loaded), words_for(pipeline.peak)));
  add_limit_line(text, pipeline.memory, result.limit);
  text += "\n";
  MarkdownTable table(1, {"Model", "Load time", "Memory increment", "n", "P50", "P99"});
  const std::string absent(kAbsent);
  for (const PipelineModel& model : pipeline.models)
    table.add({escaped(model.name), words_for(model.load_time), words_for(model.memory_increment),
               model.inference ? std::to_string(model.inference->n) : absent, p50_of(model.inference),
               p99_of(model.inference)});
  if (table.empty()) return text;
  text += table.text();
  if (pipeline_lacks_bound(pipeline)) text += footnote_on_bounds();
  return text +
         "Models are loaded in this order, and the increments depend on it: a later model reuses memory that "
         "an earlier load released, so it can add less here than it needs alone.\n\n";
}

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
