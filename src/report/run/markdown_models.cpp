// Model Performance: a table of all models, then a section per model.

#include <fmt/format.h>
#include <algorithm>
#include <array>

#include "base/text.h"
#include "report/run/markdown_sections.h"
#include "report/run/run_words.h"
#include "report/run/vos_words.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {

namespace {

std::string status_of(const ModelResult& model) {
  return fmt::format("{} {}{}", sign_of(model), words_for_outcome(model),
                     outcome_of(model) == Outcome::prepared ? "; not measured" : "");
}

std::string measured_overview(const BenchResult& result) {
  std::vector<std::string> header{"Model", "Status", "n",         "FPS",     "P50",
                                  "P90",   "P99",    "Load peak", "Run peak"};
  const bool has_board = result.host.ram_total > Bytes{};
  if (has_board) header.emplace_back("Of the board");
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
    const auto share = share_of_board(peak_of(model), result.host);
    if (has_board) row.push_back(share ? words_for_share(*share) : absent);
    const auto counted_peak = limit_peak(model.memory, result.limit);
    if (by_group || by_reservation) row.push_back(words_for(counted_peak));
    if (result.limit) row.push_back(counted_peak ? share_of(*counted_peak, *result.limit) : absent);
    table.add(std::move(row));
  }
  std::string notes;
  if (std::ranges::any_of(result.models,
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
  if (has_board)
    notes += fmt::format("*Of the board*: the resident peak as a part of this machine's {}.\n\n",
                         format_bytes(result.host.ram_total));
  return table.text() + notes;
}

std::string runtimes_list(const BenchResult& result) {
  std::string list;
  for (const std::string& line : words_for_runtimes(result)) list += fmt::format("- {}\n", escaped(line));
  return list.empty() ? list : list + "\n";
}

std::string prepared_overview(const BenchResult& result) {
  MarkdownTable table(kAllColumns, {"Model", "Status", "Task", "Input", "Backend", "Settings tried"});
  for (const ModelResult* model : in_reading_order(result.models))
    table.add({escaped(model->name), status_of(*model), escaped(model->task), code(model->input),
               escaped(model->backend),
               model->trials.empty() ? std::string(kAbsent) : std::to_string(model->trials.size())});
  const bool has_memory =
      std::ranges::any_of(result.models, [](const ModelResult& model) { return peak_of(model).has_value(); });
  return fmt::format("The models were prepared but not measured (`--skip-inference`).{}\n\n{}",
                     has_memory ? " Their memory was measured during the warm-up." : "", table.text());
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

// The resident peak is above the limit while the account that the limit enforces is not.
bool resident_is_above(const ModelResult& model, const std::optional<Limit>& limit) {
  if (!limit || (!counts_by_group(*limit) && !counts_by_reservation(*limit))) return false;
  const auto resident = peak_of(model);
  const auto counted = limit_peak(model.memory, limit);
  return resident && counted && *resident > limit->bytes && *counted <= limit->bytes;
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
    // The kernel kills at the limit of a control group, so its peak cannot show an excess.
    const bool stopped = model.status == ModelStatus::oom && exceeded_limit(model) && counts_by_group(*limit);
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

// --task vos

std::string accuracy_table(const VosResult& vos) {
  MarkdownTable table(2, {"Video", "Object", "Frames", "J&F", "J", "F", "Reference J&F", "Reference J"});
  const auto add = [&](std::string video, std::string object, std::string frames, const auto& figures) {
    table.add({std::move(video), std::move(object), std::move(frames), words_for_score(figures.j_and_f),
               words_for_score(figures.j), words_for_score(figures.f),
               words_for_score(figures.reference_j_and_f), words_for_score(figures.reference_j)});
  };
  for (const VosObjectScore& score : vos.scores)
    add(escaped(score.video), escaped(score.object), std::to_string(score.frames), score);
  if (table.empty()) return {};
  add("**Mean**", "", "", vos);
  return "**Accuracy** of the masks. *Reference*: by the reference benchmark's protocol, whose F is a "
         "proxy.\n\n" +
         table.text();
}

std::string clips_table(const VosResult& vos) {
  MarkdownTable table(2, {"Video", "Object", "Size", "Objects", "Frames", "FPS", "Peak", "After cleanup",
                          "Growth per frame", "GPU peak", "GPU after"});
  for (const VosClip& clip : vos.clips)
    table.add({escaped(clip.video), clip.object.empty() ? "all" : escaped(clip.object),
               fmt::format("{} × {}", clip.width, clip.height), std::to_string(clip.objects),
               std::to_string(clip.frames), words_for_rate(clip.fps), words_for(clip.peak),
               words_for(clip.after),
               clip.growth ? words_for_growth(*clip.growth, "frame") : std::string(kAbsent),
               words_for(clip.gpu_peak), words_for(clip.gpu_after)});
  if (table.empty()) return {};
  return "**Memory by clip**. *Peak*: resident, by the kernel. *After cleanup*: anonymous memory.\n\n" +
         table.text();
}

std::string object_ends_table(const VosResult& vos) {
  MarkdownTable table(2, {"Video", "Object", "After cleanup", "GPU after"});
  for (const VosObjectEnd& end : vos.object_ends)
    table.add({escaped(end.video), escaped(end.object), words_for(end.after), words_for(end.gpu_after)});
  if (table.empty()) return {};
  return "**Memory after each object**, which ran alone for two frames after its clip.\n\n" + table.text();
}

std::string sizes_table(const VosResult& vos) {
  MarkdownTable table(1, {"Resolution", "Objects", "Clips", "Peak", "GPU peak"});
  for (const SizeRow& row : rows_by_size(vos))
    table.add({fmt::format("{} × {}", row.width, row.height), std::to_string(row.objects),
               std::to_string(row.clips), words_for(row.peak), words_for(row.gpu_peak)});
  return table.empty() ? "" : "**Peak by resolution and objects**\n\n" + table.text();
}

std::string vos_section(const ModelResult& model, const std::optional<SourceMetadata>& source) {
  if (!model.vos) return {};
  const VosResult& vos = *model.vos;
  std::string text;
  add_line(text, "Tracking",
           fmt::format("prompt: {}; profile: {}; objects {}", longer_words_for_prompt(vos, source),
                       name_of(vos.profile), name_of(vos.objects)));
  if (!vos.label.empty()) add_line(text, "Label", escaped(words_for_label(vos)));
  if (vos.bank) add_line(text, "Memory Bank", format_bytes(*vos.bank));
  if (vos.per_frame) add_line(text, "Growth", words_for_growth(*vos.per_frame, "frame"));
  if (vos.gpu_per_frame) add_line(text, "GPU Growth", words_for_growth(*vos.gpu_per_frame, "frame"));
  for (const std::string& leak : words_for_leaks(vos)) add_line(text, "❌ Leak", leak);
  for (const VosLeftOut& item : vos.left_out)
    add_line(text, "Left Out", escaped(item.video + ": " + item.why));
  if (!text.empty()) text += "\n";
  return text + accuracy_table(vos) + sizes_table(vos) + clips_table(vos) + object_ends_table(vos);
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

// What a run on a GPU showed: by the ledger that stands in front of the driver, and by the driver itself.

std::string memory_of(const GpuMemory& gpu) {
  MarkdownTable table(1, {"Phase", "Requested", "Driver's figure", "Context, modules"});
  const auto add = [&](std::string phase, const std::optional<Bytes>& ours,
                       const std::optional<Bytes>& drivers) {
    if (!ours && !drivers) return;
    const auto difference = ours && drivers ? std::optional(*drivers - *ours) : std::nullopt;
    table.add({std::move(phase), words_for(ours), words_for(drivers), words_for(difference)});
  };
  add("Runtime loaded", gpu.runtime, gpu.process_runtime);
  add("Model loaded", gpu.loaded, gpu.process_loaded);
  add("**Load peak**", gpu.load_peak, std::nullopt);
  add("End of the run", gpu.running, gpu.process_running);
  add("**Run peak**", gpu.run_peak, std::nullopt);
  add("After unload", gpu.residual, gpu.process_residual);
  return table.empty() ? "" : table.text();
}

std::string heading_of(const GpuMemory& gpu) {
  std::string text = fmt::format("**Memory of {}**", escaped(gpu.device));
  if (!gpu.name.empty()) text += fmt::format(" ({})", escaped(gpu.name));
  if (const auto share = share_of_gpu(gpu))
    text += fmt::format(", peak {} of its {}", words_for_share(*share), format_bytes(*gpu.total));
  if (gpu.limit)
    text += fmt::format(", {} of {}",
                        gpu.within_limit == false ? "❌ over the limit"
                        : gpu.within_limit        ? "✅ within the limit"
                                                  : "peak unknown",
                        format_bytes(*gpu.limit));
  if (gpu.refused > 0)
    text += fmt::format(", {} refused ({})", counted(gpu.refused, "request"), words_for(gpu.refused_bytes));
  if (gpu.is_integrated == true)
    text += ". This GPU uses host memory: do not add these figures to resident memory";
  return text;
}

std::string gpu_tables(const ModelResult& model) {
  std::string text;
  for (const GpuMemory& gpu : model.gpu_memory) {
    text += heading_of(gpu) + "\n\n" + memory_of(gpu);
    if (gpu.pinned_host)
      text += fmt::format("Also {} of pinned host memory.\n\n", format_bytes(*gpu.pinned_host));
  }
  if (model.placement) {
    text += fmt::format("Nodes: {} on the GPU, {} on the CPU", model.placement->on_device,
                        model.placement->on_cpu);
    if (!model.placement->on_cpu_kinds.empty())
      text += fmt::format(" ({})", escaped(model.placement->on_cpu_kinds));
    text += ".\n\n";
  }
  return text;
}

// "Where the memory goes": the traced run of a model, by kind and by node.

constexpr std::size_t kNodesInMarkdown = 10;

std::string share(Bytes part, Bytes whole) {
  return whole > Bytes{} ? words_for_share(static_cast<double>(part.count) / static_cast<double>(whole.count))
                         : std::string(kAbsent);
}

std::string nodes_table(const LayerMemory& layers) {
  const auto own = [](const NodeMemory& node) {
    return node.output.value_or(Bytes{}).count + node.parameters.value_or(Bytes{}).count;
  };
  MarkdownTable table(
      2, {"Node", "Operation", "Output", "Parameters", "Arena in use after the node", "Time per run"});
  const auto leading = ranked(layers.nodes, own, kNodesInMarkdown);
  for (const std::size_t i : leading) {
    const NodeMemory& node = layers.nodes[i];
    table.add({code(node.name), escaped(node.operation), words_for(node.output), words_for(node.parameters),
               words_for(node.in_use),
               node.runs > 0 ? format_duration({node.duration.count / node.runs}) : std::string(kAbsent)});
  }
  if (table.empty()) return {};
  return fmt::format("The {} of {} nodes with the largest outputs and parameters:\n\n", leading.size(),
                     layers.nodes.size()) +
         table.text();
}

std::string layers_table(const ModelResult& model) {
  if (!model.layers) return {};
  const LayerMemory& layers = *model.layers;
  MarkdownTable table(1, {"Kind", "Bytes", "Share"});
  for (const MemoryShare& part : layers.shares)
    table.add({escaped(words_for(part, layers.peak_node)), format_bytes(part.bytes),
               share(part.bytes, layers.peak)});
  return fmt::format(
             "**Where the memory goes**: {} at the heap's peak, in a separate traced run of {}. For more, "
             "run `headroom report {}`.\n\n",
             format_bytes(layers.peak), counted(layers.frames, "frame"), shell_word(layers.recording)) +
         table.text() + nodes_table(layers);
}

std::string model_section(const ModelResult& model, const std::optional<Limit>& limit,
                          const std::optional<SourceMetadata>& source) {
  std::string text = fmt::format("### {}: {}\n\n", escaped(model.name), status_of(model));
  text += facts(model);
  text += latency_table(model);
  text += memory_table(model, limit);
  text += gpu_tables(model);
  text += layers_table(model);
  text += vos_section(model, source);
  text += cleanup_table(model);
  text += trials_table(model);
  text += samples(model);
  return text;
}

}  // namespace

std::string_view sign_of(const ModelResult& model) {
  // ok, over, prepared, fallen, cut_short, not_reached, skipped.
  return name_in({"✅", "❌", "☑️", "❌", "⏹️", "⏹️", "⏭️"}, outcome_of(model));
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
  text += any_prepared(result.models) ? prepared_overview(result) : measured_overview(result);
  text += runtimes_list(result);
  for (const ModelResult& model : result.models)
    if (model.status != ModelStatus::skipped) text += model_section(model, result.limit, result.source);
  return text;
}

}  // namespace headroom::report
