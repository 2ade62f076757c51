// report.md: the verdict first, then the run and its machine, the models' speed and memory, the machine's
// metrics, and what was left out.
#include "report/run/markdown_sections.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "report/run/vos_words.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

constexpr std::size_t kMostRowsShown = 20;  // of a source; report.json has all

std::string more_than_shown(std::size_t rows) {
  if (rows <= kMostRowsShown) return {};
  return fmt::format("… and {} more; `report.json` lists all.\n\n", rows - kMostRowsShown);
}

std::string title(const BenchResult& result) {
  std::string text = fmt::format("# Headroom bench {}\n\n", escaped(result.run_name));
  if (!result.complete)
    text +=
        "> [!WARNING]\n> **This run is incomplete**: it was interrupted or is still running. The results so "
        "far are shown.\n\n";
  return text;
}

// All options that influence a run, also those with default values, so that readers can compare two runs.
std::string words_for_options(const BenchOptions& options) {
  std::string text = fmt::format(
      "max-frames {}, warmup {}, threads {}, limit-mechanism {}, workspace {}, timeout {}, metrics-interval "
      "{}",
      options.max_frames, options.warmup_frames, options.threads, options.limit_mechanism,
      format_bytes(options.workspace), format_duration(options.timeout),
      format_duration(options.metrics_interval));
  if (options.max_frames_in_memory)
    text += fmt::format(", max-frames-in-mem {}", *options.max_frames_in_memory);
  if (options.tune) text += ", tune";
  if (options.skip_setup) text += ", skip-setup";
  return text;
}

bool has_own_thresholds(const BenchResult& result) {
  return std::ranges::any_of(result.models, [&](const ModelResult& model) {
    return (model.confidence && *model.confidence != result.confidence) ||
           (model.iou && *model.iou != result.iou);
  });
}

// One line for all GPUs of a kind would lose which is which; a machine has few.
void add_gpus(std::string& text, const HostInfo& host) {
  for (const HostGpu& gpu : host.gpus) {
    std::string words = escaped(gpu.name.empty() ? "unknown" : gpu.name);
    if (gpu.memory_total) words += ", " + format_bytes(*gpu.memory_total);
    if (!gpu.pci_bus_id.empty()) words += ", PCI " + escaped(gpu.pci_bus_id);
    if (gpu.mig_enabled == true) words += ", MIG: " + counted(std::ssize(gpu.mig_instances), "instance");
    add_line(text, fmt::format("GPU {}", gpu.index), words);
  }
  if (!host.gpu_driver.empty()) add_line(text, "GPU driver", escaped(host.gpu_driver));
}

std::string metadata_section(const BenchResult& result) {
  const HostInfo& host = result.host;
  std::string text = "## Metadata\n\n";
  add_line(text, "Started", escaped(without_fraction(result.started_at)));
  add_line(text, "Command", code(result.command));
  add_line(text, "Headroom", escaped(host.headroom_version));
  add_line(text, "Host", escaped(host.hostname));
  add_line(text, "Board", escaped(host.board));
  std::string processor = escaped(host.cpu_model);
  if (host.cpus > 0)
    processor += fmt::format("{}{}", processor.empty() ? "" : ", ", counted(host.cpus, "core"));
  if (!host.machine.empty())
    processor += fmt::format("{}{}", processor.empty() ? "" : ", ", escaped(host.machine));
  add_line(text, "Processor", processor);
  if (host.ram_total > Bytes{}) add_line(text, "Memory", format_bytes(host.ram_total));
  add_gpus(text, host);
  add_line(text, "System",
           escaped(host.os) + (host.kernel.empty() ? "" : ", kernel " + escaped(host.kernel)));
  if (result.setup_time > Nanoseconds{}) add_line(text, "Setup phase", format_duration(result.setup_time));
  if (result.inference_time > Nanoseconds{})
    add_line(text, "Inference phase", format_duration(result.inference_time));
  if (const std::string sizes = words_for_input_sizes(result); !sizes.empty())
    add_line(text, "Model input", sizes);
  else if (result.image_size > 0 && !result.vos)
    add_line(text, "Settings",
             fmt::format("image size {} (for models without a fixed size), confidence {}, IoU {}{}",
                         result.image_size, result.confidence, result.iou,
                         has_own_thresholds(result) ? "; some models use their own" : ""));
  if (result.options) add_line(text, "Options", words_for_options(*result.options));
  return text + "\n";
}

// A run that ended before its source was scanned has none to tell of either.
std::string measured_without_source(const BenchResult& result) {
  const auto has_run = [](const ModelResult& model) { return model.frames > 0; };
  if (std::ranges::none_of(result.models, has_run)) return {};
  return "## Input Source\n\nNone: the models ran on inputs generated from their signatures.\n\n";
}

// How many frames there are, and how many of them were run: fewer with another --max-frames than in the
// setup.
std::string words_for_frames(const BenchResult& result) {
  const std::int64_t prepared = result.source->total_frames;
  if (prepared == 0) return {};  // a camera's are not known
  std::int64_t fewest = 0, most = 0;
  for (const ModelResult& model : result.models) {
    if (model.frames == 0) continue;
    fewest = fewest == 0 ? model.frames : std::min(fewest, model.frames);
    most = std::max(most, model.frames);
  }
  if (most == 0 || (fewest == prepared && most == prepared)) return std::to_string(prepared);
  if (fewest == most) return fmt::format("{} prepared, {} run by each model", prepared, most);
  return fmt::format("{} prepared, {} to {} run per model", prepared, fewest, most);
}

std::string source_section(const BenchResult& result) {
  if (!result.source) return measured_without_source(result);
  const SourceMetadata& source = *result.source;
  std::string text = "## Input Source\n\n";
  add_line(text, "Type", code(name_of(source.spec.kind)));
  const bool is_camera = has_camera_number(source.spec.kind);
  add_line(text, is_camera ? "Camera" : "Path",
           is_camera ? std::to_string(source.spec.camera_index) : code(source.spec.path));
  add_line(text, "Frames", words_for_frames(result));
  add_line(text, "Sequences", std::to_string(source.sequences.size()));
  if (result.frames_held_peak > 0)
    add_line(text, "Decoded frames held in memory", fmt::format("at most {}", result.frames_held_peak));
  text += "\n";
  // Pictures of a folder may differ; the scan keeps the largest.
  const std::string_view up_to = source.spec.kind == SourceKind::image_dir ? "up to " : "";
  MarkdownTable table(1, {"Sequence", "Frames", "Size"});
  const auto& sequences = source.sequences;
  for (std::size_t i = 0; i < std::min(sequences.size(), kMostRowsShown); ++i)
    table.add({escaped(sequences[i].name),
               sequences[i].frames > 0 ? std::to_string(sequences[i].frames) : std::string(kAbsent),
               sequences[i].width > 0
                   ? fmt::format("{}{} × {}", up_to, sequences[i].width, sequences[i].height)
                   : std::string(kAbsent)});
  if (!table.empty()) text += table.text();
  return text + more_than_shown(sequences.size());
}

std::string system_section(const BenchResult& result) {
  if (result.system.empty()) return {};
  MarkdownTable table(1, {"Metric", "Mean", "Min", "Max", "Samples"});
  MarkdownTable events(1, {"Event", "Total over the run"});
  for (const MetricSummary& metric : result.system) {
    if (const auto total = total_of(metric)) {
      events.add({escaped(title_of_metric(metric.name)), std::to_string(*total)});
      continue;
    }
    table.add({escaped(title_of_metric(metric.name)), words_for_metric(metric.name, metric.mean),
               words_for_metric(metric.name, metric.min), words_for_metric(metric.name, metric.max),
               std::to_string(metric.n)});
  }
  return "## System Metrics\n\nFor the whole machine during the inference phase. All samples are in "
         "`metrics.jsonl`.\n\n" +
         (table.empty() ? "" : table.text()) + (events.empty() ? "" : events.text());
}

std::string warnings_section(const BenchResult& result) {
  std::string list;
  for (const std::string& warning : result.warnings) list += fmt::format("- ⚠️ {}\n", escaped(warning));
  for (const ModelResult& model : result.models)
    for (const std::string& warning : warnings_of(model))
      list += fmt::format("- ⚠️ **{}**: {}\n", escaped(model.name), escaped(warning));
  return list.empty() ? list : "## Warnings\n\n" + list + "\n";
}

std::string left_out_section(const BenchResult& result) {
  std::string text;
  for (const ModelResult& model : result.models)
    if (model.status == ModelStatus::skipped)
      text += fmt::format("- {} Model **{}**: {}\n", sign_of(model), escaped(model.name),
                          model.error.empty() ? "skipped" : escaped(model.error));
  if (!text.empty()) text += "\n";
  if (result.source && !result.source->skipped.empty()) {
    const auto& skipped = result.source->skipped;
    MarkdownTable table(kAllColumns, {"Frame", "Reason"});
    for (std::size_t i = 0; i < std::min(skipped.size(), kMostRowsShown); ++i)
      table.add({code(skipped[i].name), escaped(skipped[i].reason)});
    text += fmt::format("{} of the source could not be used:\n\n", counted(std::ssize(skipped), "item")) +
            table.text();
    text += more_than_shown(skipped.size());
  }
  return text.empty() ? text : "## Left Out\n\n" + text;
}

constexpr std::string_view kDefinitions =
    "---\n\nPercentiles are nearest rank: measured values, never interpolated. “P99 at most” is the upper "
    "bound of P99 at 99 % confidence (LoadGen early stopping). It needs 662 frames; the bound of P90 needs "
    "64. Warm-up runs are excluded. Peaks are the kernel's high-water marks. 1 MiB is 1,048,576 bytes. “–” "
    "means not measured; it does not mean zero.\n";

// The Memory Safety Summary: the verdict first, then its evidence.

constexpr std::size_t kClosestShown = 5;

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
  const bool tried =
      std::ranges::any_of(limit.routes, [](const LimitRoute& route) { return route.outcome != "not_tried"; });
  // Without a mechanism, and with a watchdog, memory is only measured.
  const bool refuses_memory =
      limit.mechanism != LimitMechanism::none && limit.mechanism != LimitMechanism::watchdog;
  if (!limit.routes.empty() && !tried && !refuses_memory)
    return "No route was tried: this mechanism does not refuse memory.\n\n";
  MarkdownTable table(kAllColumns, {"Route", "Result", "Detail"});
  for (const LimitRoute& route : limit.routes)
    table.add({code(route.name), std::string(words_for_route(route.outcome)), escaped(route.detail)});
  if (table.empty()) return {};
  return "**Routes that the probe tried** before the run, each in its own child process:\n\n" + table.text();
}

// The limit on GPU memory and its type; empty without one.
std::string gpu_limit_lines(const BenchResult& result) {
  if (!result.gpu_limit) return {};
  const Limit& limit = *result.gpu_limit;
  std::string text = fmt::format("- **GPU Memory Limit**: {}, {} by {}", format_bytes(limit.bytes),
                                 name_of(limit.type), words_for(limit.mechanism));
  if (!limit.note.empty()) text += fmt::format(": {}", escaped(limit.note));
  for (const LimitRoute& route : limit.routes)
    text +=
        fmt::format("{}{} {}", &route == &limit.routes.front() ? ". Routes tried: " : ", ", code(route.name),
                    route.outcome == "escaped"     ? "**exceeded it**"
                    : route.outcome == "not_tried" ? "not tried"
                                                   : escaped(route.outcome));
  return text + "\n\n";
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
  std::ranges::stable_sort(
      models, [&](const ModelResult* a, const ModelResult* b) { return *compared(*a) > *compared(*b); });
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

std::string memory_safety_section(const BenchResult& result) {
  const Verdict verdict = verdict_of(result);
  std::string text = "## 🔒 Memory Safety Summary\n\n";
  text += fmt::format("{} **Overall Status**: {}.\n\n", name_in({"✅", "ℹ️", "❌"}, verdict.tone),
                      escaped(verdict.sentence));
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

// The runs of several models: all at once (--parallel), and all in one process (--pipeline).

void add_status(std::string& text, ModelStatus status, const std::string& error) {
  add_line(
      text, "Status",
      fmt::format("{}{}{}", words_for_outcome(status, error), error.empty() ? "" : ": ", escaped(error)));
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
  add_status(text, pipeline.status, pipeline.error);
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
  bool any_lacks_bound = lacks_bound(pipeline.frame);
  for (const PipelineModel& model : pipeline.models) {
    table.add({escaped(model.name), words_for(model.load_time), words_for(model.memory_increment),
               model.inference ? std::to_string(model.inference->n) : absent, p50_of(model.inference),
               p99_of(model.inference)});
    any_lacks_bound = any_lacks_bound || lacks_bound(model.inference);
  }
  if (table.empty()) return text;
  text += table.text();
  if (any_lacks_bound) text += footnote_on_bounds();
  return text +
         "Models are loaded in this order, and the increments depend on it: a later model reuses memory that "
         "an earlier load released, so it can add less here than it needs alone.\n\n";
}

std::string pool_section(const BenchResult& result) {
  if (!result.pool) return {};
  const PoolResult& pool = *result.pool;
  std::string text = "## Model Pool\n\n";
  add_status(text, pool.status, pool.error);
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
  bool any_lacks_bound = lacks_bound(pool.frame);
  for (const PooledModel& model : pool.models) {
    table.add({escaped(model.name) + (model.isolated ? " (own process)" : ""),
               model.every == 1 ? "every frame" : fmt::format("1 in {}", model.every),
               std::to_string(model.requests), std::to_string(model.hits), std::to_string(model.loads),
               std::to_string(model.evictions), std::to_string(model.refusals + model.failures),
               words_for(model.charge), p50_of(model.load), p50_of(model.wait), p99_of(model.wait),
               p50_of(model.inference), p99_of(model.inference)});
    any_lacks_bound = any_lacks_bound || lacks_bound(model.inference) || lacks_bound(model.wait);
  }
  if (table.empty()) return text;
  text += table.text();
  if (any_lacks_bound) text += footnote_on_bounds();
  return text +
         "The pool starts empty, so these figures include each model's first load. *Memory* is what the pool "
         "measured at the model's last load. *Wait* is the delay of a request whose model was not loaded: "
         "evictions and the load.\n\n" +
         std::string(pool.threads > 1 ? kThreads : "");
}

}  // namespace

void add_line(std::string& text, std::string_view label, const std::string& value) {
  if (!value.empty()) text += fmt::format("- **{}**: {}\n", label, value);
}

std::string to_markdown(const BenchResult& result) {
  std::string text = title(result);
  text += memory_safety_section(result);
  text += metadata_section(result);
  text += source_section(result);
  text += models_section(result);
  text += parallel_section(result);
  text += pipeline_section(result);
  text += pool_section(result);
  text += system_section(result);
  text += warnings_section(result);
  text += left_out_section(result);
  text += kDefinitions;
  return text;
}

}  // namespace headroom::report
