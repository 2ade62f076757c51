// Model Performance: all models side by side, then each by itself.
#include <fmt/format.h>

#include <array>

#include "report/markdown_sections.h"
#include "report/markdown_text.h"
#include "report/words.h"

namespace headroom::report {
namespace {

std::string_view sign_of(const ModelResult& model) {
  if (model.status == ModelStatus::skipped) return "⏭️";
  return model.status == ModelStatus::ok && !exceeded_limit(model) ? "✅" : "❌";
}

std::string status_of(const ModelResult& model) {
  std::string text = fmt::format("{} {}", sign_of(model), words_for(model.status));
  if (model.status == ModelStatus::ok && exceeded_limit(model)) text += ", over the limit";
  return text;
}

std::string p50_of(const std::optional<LatencySummary>& latency) {
  return latency ? format_duration(latency->p50) : std::string(kAbsent);
}

std::string overview(const BenchResult& result) {
  MarkdownTable table(2, {"Model", "Status", "FPS", "P50", "P90", "P99", "Load peak", "Run peak"});
  for (const ModelResult& model : result.models) {
    const auto latency = [&](auto pick) {
      return model.inference ? format_duration(pick(*model.inference)) : std::string(kAbsent);
    };
    table.add({escaped(model.name), status_of(model), words_for_rate(model.fps), p50_of(model.inference),
               latency([](const LatencySummary& l) { return l.p90; }),
               latency([](const LatencySummary& l) { return l.p99; }), words_for(model.memory.load_peak),
               words_for(model.memory.run_peak)});
  }
  return table.text();
}

std::string bound_of(const std::optional<Nanoseconds>& bound) {
  return bound ? format_duration(*bound) : "n too small";
}

std::string latency_table(const ModelResult& model) {
  MarkdownTable table(
      1, {"Stage", "n", "Mean", "SD", "CV", "Min", "P50", "P90", "P99", "Max", "P90 at most", "P99 at most"});
  const std::array<std::pair<std::string_view, const std::optional<LatencySummary>*>, 5> stages{
      {{"Decode", &model.decode},
       {"Pre-processing", &model.preprocess},
       {"**Inference**", &model.inference},
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

  std::string text = "**Memory**";
  if (limit) {
    text += fmt::format(" {} of {}", exceeded_limit(model) ? "❌ over the limit" : "✅ within the limit",
                        format_bytes(limit->bytes));
    if (memory.violations > 0) text += fmt::format(", {}", counted(memory.violations, "violation"));
  }
  text += "\n\n" + table.text();
  std::vector<std::string> notes;
  if (memory.frames)
    notes.push_back(fmt::format("decoded frames inside these figures: {}", format_bytes(*memory.frames)));
  if (memory.pss_run_peak)
    notes.push_back(fmt::format("largest proportional share (PSS): {}", format_bytes(*memory.pss_run_peak)));
  if (memory.cgroup_peak)
    notes.push_back(
        fmt::format("control group's peak, page cache included: {}", format_bytes(*memory.cgroup_peak)));
  if (!notes.empty()) text += fmt::format("Also {}.\n\n", fmt::join(notes, "; "));
  return text;
}

std::string cleanup_table(const ModelResult& model) {
  MarkdownTable table(1, {"After the state was cleaned", "Resident"});
  for (const CleanupPoint& point : model.cleanups)
    table.add(
        {fmt::format("{} {}", escaped(point.level), escaped(point.name)), format_bytes(point.resident)});
  return table.empty() ? "" : table.text();
}

std::string trials_table(const ModelResult& model) {
  if (model.trials.empty()) return {};
  MarkdownTable table(2, {"Settings tried", "Kept as", "P50", "Peak", "Status"});
  for (const TuneTrial& trial : model.trials) {
    std::string kept;
    if (trial.settings == model.settings) kept = "**fastest that fits**";
    if (model.smallest_settings && trial.settings == *model.smallest_settings)
      kept += fmt::format("{}smallest within 5 %", kept.empty() ? "" : ", ");
    std::string status(words_for(trial.status));
    if (!trial.error.empty()) status += ": " + escaped(trial.error);
    table.add({code(trial.settings.describe()), kept, words_for(trial.p50), words_for(trial.peak), status});
  }
  return "**Tuning trials**, each in a process of its own under the limit\n\n" + table.text();
}

void add_line(std::string& text, std::string_view label, const std::string& value) {
  if (!value.empty()) text += fmt::format("- **{}**: {}\n", label, value);
}

std::string facts(const ModelResult& model) {
  std::string text;
  add_line(text, "Cause", escaped(model.error));
  if (model.died_in)
    add_line(text, "Ended",
             fmt::format("{} (last phase done: {})", activity_after(*model.died_in),
                         code(name_of(*model.died_in))));
  std::string file = code(model.path);
  if (model.file_size) file += fmt::format(" ({})", format_bytes(*model.file_size));
  add_line(text, "File", file);
  add_line(text, "Backend",
           escaped(model.backend + (model.backend_version.empty() ? "" : " " + model.backend_version)));
  add_line(text, "Task", escaped(model.task));
  add_line(text, "Input", code(model.input));
  if (model.status == ModelStatus::ok) add_line(text, "Settings", code(model.settings.describe()));
  if (model.fps) {
    std::string fps = words_for_rate(model.fps) + " inference";
    if (model.pipeline_fps) fps += fmt::format(", {} whole pipeline", words_for_rate(model.pipeline_fps));
    add_line(text, "FPS", fps);
  }
  if (model.frames > 0) add_line(text, "Frames", std::to_string(model.frames));
  if (model.detections)
    add_line(text, "Detections per Frame",
             fmt::format("mean {:.2f}, min {}, max {}", model.detections->mean, model.detections->min,
                         model.detections->max));
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
  text += cleanup_table(model);
  text += trials_table(model);
  text += samples(model);
  return text;
}

}  // namespace

std::string models_section(const BenchResult& result) {
  std::string text = "## Model Performance\n\n";
  if (result.models.empty()) return text + "No model was measured.\n\n";
  text += overview(result);
  for (const ModelResult& model : result.models)
    if (model.status != ModelStatus::skipped) text += model_section(model, result.limit);
  return text;
}

std::string parallel_section(const BenchResult& result) {
  if (!result.parallel) return {};
  const ParallelResult& parallel = *result.parallel;
  std::string text = "## All Models at Once\n\n";
  add_line(text, "Sum of the peaks alone", words_for(parallel.sum_of_peaks));
  std::string joint = words_for(parallel.joint_peak);
  if (!parallel.joint_peak_source.empty()) joint += fmt::format(" ({})", code(parallel.joint_peak_source));
  add_line(text, "Joint peak", joint);
  if (result.limit)
    add_line(text, "Common limit",
             fmt::format("{} {}", format_bytes(result.limit->bytes),
                         parallel.within_limit ? "✅ kept" : "❌ not kept"));
  text += "\n";
  MarkdownTable table(2, {"Model", "Together", "FPS alone", "FPS together", "P50 alone", "P50 together",
                          "Run peak alone", "Run peak together"});
  for (const ModelResult& together : parallel.together) {
    static const ModelResult kNotAlone;
    const ModelResult* alone = &kNotAlone;
    for (const ModelResult& model : result.models)
      if (model.name == together.name) alone = &model;
    table.add({escaped(together.name), status_of(together), words_for_rate(alone->fps),
               words_for_rate(together.fps), p50_of(alone->inference), p50_of(together.inference),
               words_for(alone->memory.run_peak), words_for(together.memory.run_peak)});
  }
  return text + (table.empty() ? "" : table.text());
}

std::string pipeline_section(const BenchResult& result) {
  if (!result.pipeline) return {};
  const PipelineResult& pipeline = *result.pipeline;
  std::string text = "## Full Pipeline in One Process\n\n";
  add_line(text, "Status",
           fmt::format("{}{}{}", words_for(pipeline.status), pipeline.error.empty() ? "" : ": ",
                       escaped(pipeline.error)));
  add_line(text, "Frames", std::to_string(pipeline.frames));
  if (pipeline.fps) add_line(text, "FPS", words_for_rate(pipeline.fps));
  if (pipeline.frame) {
    add_line(text, "One frame through all models",
             fmt::format("P50 {}, P90 {}, P99 {}", format_duration(pipeline.frame->p50),
                         format_duration(pipeline.frame->p90), format_duration(pipeline.frame->p99)));
  }
  add_line(text, "Memory",
           fmt::format("runtime {}, all models loaded {}, **peak {}**", words_for(pipeline.runtime),
                       words_for(pipeline.loaded), words_for(pipeline.peak)));
  text += "\n";
  MarkdownTable table(1, {"Model", "Load time", "Memory increment", "P50", "P99"});
  for (const PipelineModel& model : pipeline.models)
    table.add({escaped(model.name), words_for(model.load_time), words_for(model.memory_increment),
               p50_of(model.inference),
               model.inference ? format_duration(model.inference->p99) : std::string(kAbsent)});
  return text + (table.empty() ? "" : table.text());
}

}  // namespace headroom::report
