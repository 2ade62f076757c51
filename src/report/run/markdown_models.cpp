// Model Performance: a table of all models, then a section per model.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/markdown_text.h"
#include "report/run/limit_words.h"
#include "report/run/markdown_sections.h"
#include "report/run/outcome.h"
#include "report/run/tuning_words.h"
#include "report/words.h"

namespace headroom::report {
namespace {

std::string status_of(const ModelResult& model) {
  return fmt::format("{} {}{}", sign_of(model), words_for_outcome(model),
                     outcome_of(model) == Outcome::prepared ? "; not measured" : "");
}

std::string measured_overview(const BenchResult& result) {
  std::vector<std::string> header{"Model", "Status", "n",         "FPS",     "P50",
                                  "P90",   "P99",    "Load peak", "Run peak"};
  const bool by_group = result.limit && counts_by_group(*result.limit);
  const bool by_reservation = result.limit && counts_by_reservation(*result.limit);
  if (by_group) header.emplace_back("Charged");
  if (by_reservation) header.emplace_back("Reserved");
  if (result.limit) header.emplace_back("Of the limit");
  MarkdownTable table(2, header);
  for (const ModelResult* shown : in_reading_order(result.models)) {
    const ModelResult& model = *shown;
    const auto& latency = model.inference;
    const std::string absent(kAbsent);
    std::vector<std::string> row{escaped(model.name),
                                 status_of(model),
                                 latency ? std::to_string(latency->n) : absent,
                                 words_for_rate(model.fps),
                                 p50_of(latency),
                                 latency ? percentile(latency->p90, latency->p90_bound) : absent,
                                 p99_of(latency),
                                 words_for(model.memory.load_peak),
                                 words_for(model.memory.run_peak)};
    const auto counted_peak = limit_peak(model.memory, result.limit);
    if (by_group || by_reservation) row.push_back(words_for(counted_peak));
    if (result.limit) row.push_back(counted_peak ? share_of(*counted_peak, *result.limit) : absent);
    table.add(std::move(row));
  }
  std::string notes;
  if (std::any_of(result.models.begin(), result.models.end(),
                  [](const ModelResult& model) { return lacks_bound(model.inference); }))
    notes += footnote_on_bounds();
  if (by_group)
    notes +=
        "Load peak and run peak are resident memory. *Charged* is what the kernel charges to the control "
        "group; the limit applies to it.\n\n";
  if (by_reservation)
    notes +=
        "Load peak and run peak are resident memory. *Reserved* is private writable memory, touched or not "
        "(VmData); RLIMIT_DATA limits it.\n\n";
  return table.text() + notes;
}

std::string prepared_overview(const BenchResult& result) {
  MarkdownTable table(kAllColumns, {"Model", "Status", "Task", "Input", "Backend", "Settings tried"});
  for (const ModelResult* model : in_reading_order(result.models))
    table.add({escaped(model->name), status_of(*model), escaped(model->task), code(model->input),
               escaped(model->backend),
               model->trials.empty() ? std::string(kAbsent) : std::to_string(model->trials.size())});
  const bool has_memory = std::any_of(result.models.begin(), result.models.end(),
                                      [](const ModelResult& model) { return peak_of(model).has_value(); });
  return fmt::format("The models were prepared but not measured (`--skip-inference`).{}\n\n{}",
                     has_memory ? " Their memory was measured during the warm-up." : "", table.text());
}

std::string overview(const BenchResult& result) {
  const bool prepared = std::any_of(result.models.begin(), result.models.end(), [](const ModelResult& model) {
    return outcome_of(model) == Outcome::prepared;
  });
  return prepared ? prepared_overview(result) : measured_overview(result);
}

std::string bound_of(const std::optional<Nanoseconds>& bound) {
  return bound ? format_duration(*bound) : "too few frames";
}

std::string latency_table(const ModelResult& model) {
  MarkdownTable table(
      1, {"Stage", "n", "Mean", "SD", "CV", "Min", "P50", "P90", "P99", "Max", "P90 at most", "P99 at most"});
  const std::array<std::pair<std::string_view, const std::optional<LatencySummary>*>, 6> stages{
      {{"Decode", &model.decode},
       {"Pre-processing", &model.preprocess},
       {"**Inference**", &model.inference},
       {"Inference, GPU clock", &model.device_time},
       {"Post-processing", &model.postprocess},
       {"End to end", &model.end_to_end}}};
  for (const auto& [name, stage] : stages) {
    if (!*stage) continue;
    const LatencySummary& l = **stage;
    const auto nanoseconds = [](double value) { return format_duration({static_cast<std::int64_t>(value)}); };
    table.add({std::string(name), std::to_string(l.n), nanoseconds(l.mean_ns), nanoseconds(l.sd_ns),
               words_for_share(l.cv), format_duration(l.min), format_duration(l.p50), format_duration(l.p90),
               format_duration(l.p99), format_duration(l.max), bound_of(l.p90_bound), bound_of(l.p99_bound)});
  }
  return table.empty() ? "" : "**Latency**\n\n" + table.text();
}

std::string memory_table(const ModelResult& model, const std::optional<Limit>& limit) {
  const ModelMemory& memory = model.memory;
  MarkdownTable table(1, {"Phase", "Resident", "Over the bare runtime"});
  const auto add = [&](std::string phase, const std::optional<Bytes>& bytes, bool compared) {
    if (!bytes) return;
    std::string over;
    if (compared && memory.runtime) over = format_bytes(*bytes - *memory.runtime);
    table.add({std::move(phase), format_bytes(*bytes), over});
  };
  add("Process start", memory.start, false);
  add("Runtime loaded", memory.runtime, false);
  add("Model loaded", memory.loaded, true);
  add("**Load peak**", memory.load_peak, true);
  add("Run mean", memory.run_mean, true);
  add("**Run peak**", memory.run_peak, true);
  add("After unload", memory.residual, true);
  if (table.empty()) return {};

  std::string text = outcome_of(model) == Outcome::prepared ? "**Memory of the warm-up**" : "**Memory**";
  if (limit) {
    const bool stopped = was_stopped_at_limit(model, *limit);
    text += fmt::format(" {} of {}",
                        stopped                 ? "❌ stopped at the limit"
                        : exceeded_limit(model) ? "❌ over the limit"
                                                : "✅ within the limit",
                        format_bytes(limit->bytes));
    if (memory.violations > 0) text += fmt::format(", {}", counted(memory.violations, "violation"));
    if (stopped) {
      if (const auto resident = peak_of(model))
        text += fmt::format(" (resident {})", format_bytes(*resident));
    } else if (limit_peak(memory, limit)) {
      text += ": " + peak_against(model, limit);
    }
  }
  text += "\n\n" + table.text();
  std::vector<std::string> notes;
  if (memory.frames)
    notes.push_back(fmt::format("These figures include {} of decoded frames.", format_bytes(*memory.frames)));
  if (memory.pss_run_peak)
    notes.push_back(fmt::format("Largest proportional share (PSS): {}.", format_bytes(*memory.pss_run_peak)));
  if (memory.cgroup_peak)
    notes.push_back(
        fmt::format("Peak of the control group, with page cache: {}.", format_bytes(*memory.cgroup_peak)));
  if (!notes.empty()) text += fmt::format("{}\n\n", fmt::join(notes, " "));
  if (resident_is_above(model, limit))
    text +=
        counts_by_reservation(*limit)
            ? "Resident memory is larger than reserved private memory: RLIMIT_DATA does not count pages of "
              "files and libraries, or shared memory.\n\n"
            : "Resident memory is larger than charged memory: pages of shared libraries that were already "
              "in memory are not charged.\n\n";
  return text;
}

std::string cleanup_table(const ModelResult& model) {
  MarkdownTable table(1, {"After cleanup", "Resident"});
  for (const CleanupPoint& point : model.cleanups)
    table.add({fmt::format("{} {}", point.level == "video" ? "sequence" : escaped(point.level),
                           escaped(point.name)),
               format_bytes(point.resident)});
  return table.empty() ? "" : table.text();
}

std::string trials_table(const ModelResult& model) {
  if (model.trials.empty()) return {};
  MarkdownTable table(2, {"Settings tried", "Kept as", "P50", "Peak", "Status"});
  for (const TuneTrial& trial : model.trials) {
    std::string status(trial.within_limit == false ? "over the limit" : words_for(trial.status));
    if (!trial.error.empty()) status += ": " + escaped(trial.error);
    table.add({code(trial.settings.describe()), kept_as(model, trial), words_for(trial.p50),
               words_for(trial.counted_peak()), status});
  }
  return fmt::format("**Tuning trials**, each in its own process: {}.\n\n", escaped(describe_tuning(model))) +
         table.text();
}

std::string facts(const ModelResult& model) {
  std::string text;
  add_line(text, outcome_of(model) == Outcome::cut_short ? "Note" : "Cause", escaped(model.error));
  if (model.died_in)
    add_line(text, "Ended",
             fmt::format("{} (last completed phase: {})", activity_after(*model.died_in),
                         code(name_of(*model.died_in))));
  std::string file = code(model.path);
  if (model.file_size) file += fmt::format(" ({})", format_bytes(*model.file_size));
  add_line(text, "File", file);
  add_line(text, "Backend",
           escaped(model.backend + (model.backend_version.empty() ? "" : " " + model.backend_version)));
  add_line(text, "Task", escaped(model.task));
  add_line(text, "Input", code(model.input));
  if (model.confidence)
    add_line(text, "Thresholds",
             fmt::format("confidence {}{}", *model.confidence,
                         model.iou ? fmt::format(", IoU {}", *model.iou) : ""));
  if (model.status == ModelStatus::ok) add_line(text, "Settings", code(model.settings.describe()));
  if (model.fps) {
    std::string fps = words_for_rate(model.fps) + " inference";
    if (model.pipeline_fps) fps += fmt::format(", {} whole pipeline", words_for_rate(model.pipeline_fps));
    add_line(text, "FPS", fps);
  }
  if (model.frames > 0) add_line(text, "Frames", std::to_string(model.frames));
  if (model.detections)
    add_line(text, "Detections per Frame",
             fmt::format("mean {}, min {}, max {}", words_for_average(model.detections->mean),
                         model.detections->min, model.detections->max));
  if (model.model_load_time)
    add_line(text, "Load Time",
             fmt::format("runtime {}, model {}, warm-up {}", words_for(model.runtime_load_time),
                         words_for(model.model_load_time), words_for(model.warmup_time)));
  if (model.cpu_percent) add_line(text, "CPU", fmt::format("{:.0f} % of one core", *model.cpu_percent));
  return text + "\n";
}

std::string samples(const ModelResult& model) {
  std::string text;
  for (const std::string& path : model.annotated_images)
    text += fmt::format("{}[{}](<{}>)", text.empty() ? "Annotated samples: " : ", ", escaped(path), path);
  return text.empty() ? text : text + "\n\n";
}

std::string model_section(const ModelResult& model, const std::optional<Limit>& limit) {
  std::string text = fmt::format("### {}: {}\n\n", escaped(model.name), status_of(model));
  text += facts(model);
  text += latency_table(model);
  text += memory_table(model, limit);
  text += gpu_tables(model);
  text += layers_table(model);
  text += cleanup_table(model);
  text += trials_table(model);
  text += samples(model);
  return text;
}

}  // namespace

std::string_view sign_of(const ModelResult& model) {
  switch (outcome_of(model)) {
    case Outcome::ok:
      return "✅";
    case Outcome::prepared:
      return "☑️";
    case Outcome::over:
    case Outcome::fallen:
      return "❌";
    case Outcome::cut_short:
    case Outcome::not_reached:
      return "⏹️";
    case Outcome::skipped:
      return "⏭️";
  }
  return "";
}

std::string p50_of(const std::optional<LatencySummary>& latency) {
  return latency ? format_duration(latency->p50) : std::string(kAbsent);
}

std::string percentile(Nanoseconds value, const std::optional<Nanoseconds>& bound) {
  return format_duration(value) + (bound ? "" : escaped(kUnboundedMark));
}

std::string p99_of(const std::optional<LatencySummary>& latency) {
  return latency ? percentile(latency->p99, latency->p99_bound) : std::string(kAbsent);
}

std::string percentiles_of(const LatencySummary& latency) {
  return fmt::format("n {}, P50 {}, P90 {}, P99 {}", latency.n, format_duration(latency.p50),
                     percentile(latency.p90, latency.p90_bound), percentile(latency.p99, latency.p99_bound));
}

bool lacks_bound(const std::optional<LatencySummary>& latency) {
  return latency && (!latency->p90_bound || !latency->p99_bound);
}

void add_limit_line(std::string& text, const ModelMemory& memory, const std::optional<Limit>& limit) {
  if (const auto counted = limit_peak(memory, limit))
    add_line(text, "Against the limit",
             fmt::format("{} of {}, {}", format_bytes(*counted), format_bytes(limit->bytes),
                         memory.within_limit == false ? "❌ over the limit" : "✅ within the limit"));
}

std::string footnote_on_bounds() {
  return fmt::format("{} {}\n\n", escaped(kUnboundedMark), escaped(kUnboundedFootnote));
}

std::string models_section(const BenchResult& result) {
  std::string text = "## Model Performance\n\n";
  if (result.models.empty()) return text + "No model was measured.\n\n";
  text += overview(result);
  for (const ModelResult& model : result.models)
    if (model.status != ModelStatus::skipped) text += model_section(model, result.limit);
  return text;
}

}  // namespace headroom::report
