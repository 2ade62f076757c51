#include "doctor/run/run_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/cure_trials.h"

namespace headroom::doctor {
namespace {

// Completes the cures' commands with the model and options of the run:
// - "--model NAME=PATH,mapped=on" becomes a command, or two for a model that must be prepared outside the
//   limit.
// - "headroom bench", with "--tune" or "--layers", gets the model and the options. Without "--tune", it gets
// no
//   limits: what ran out of memory under them would do so again.
void complete_commands(Finding& finding, const BenchResult& result, const ModelResult* of_model) {
  if (!result.options) return;
  for (Cure& cure : finding.cures) {
    if (cure.settings) {
      // --try measures one session for all models, but a user must change the program for it.
      const auto model = std::ranges::find(result.models, cure.settings->model, &ModelResult::name);
      if (!cure.settings->leave_out_also && model != result.models.end())
        cure.command = bench_command(result, *model, *cure.settings);
      continue;
    }
    constexpr std::string_view kBench = "headroom bench";
    if (of_model == nullptr || !cure.command.starts_with(kBench)) continue;
    const std::string flag = cure.command.substr(kBench.size());
    BenchResult run = result;
    if (flag != " --tune") {
      run.options->memory_limit.reset();
      run.options->gpu_memory_limit.clear();
    }
    cure.command = bench_command(run, *of_model, {}) + flag;
  }
}

// The layers' memory of one kind at the peak, if it is at least a quarter of the peak.
std::optional<Bytes> large_share(const ModelResult& model, MemoryKind kind) {
  if (!model.layers) return std::nullopt;
  Bytes sum;
  for (const MemoryShare& share : model.layers->shares)
    if (share.kind == kind) sum += share.bytes;
  if (sum < kLeastOfModels || sum.count * 4 < model.layers->peak.count) return std::nullopt;
  return sum;
}

// The report exists from the start, so the report of a killed run looks like any other.
std::vector<Finding> run_incomplete(const BenchResult& run) {
  if (run.complete) return {};
  Finding finding =
      finding_of("run-incomplete", Severity::warning, Confidence::possible, "The run did not finish",
                 "The run was interrupted or killed, or it is still running. The report contains the "
                 "measurements so far.",
                 {}, {{"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -"}});
  for (const ModelResult& model : run.models)
    if (model.status != ModelStatus::ok && !model.error.empty())
      finding.evidence.push_back({.text = model.name + ": " + model.error});
  return {std::move(finding)};
}

std::vector<Finding> throttled_run(const BenchResult& run) {
  for (const MetricSummary& metric : run.system)
    if (metric.name == "throttled" && metric.max > 0)
      return {finding_of(
          "throttled", Severity::warning, Confidence::certain,
          fmt::format("The board or a GPU was throttled in {:.0f} % of the samples", 100 * metric.mean),
          "Heat or a weak power supply reduced the clocks, so latencies are higher than they could be.",
          figures("throttled_percent", 100 * metric.mean),
          {{"cool the board, or choose a lower power mode, and measure again", "sudo nvpmodel -m MODE"}})};
  return {};
}

std::optional<Finding> oversized_arena(const ModelResult& model, const BenchResult&) {
  const auto unused = large_share(model, MemoryKind::arena_unused);
  if (!unused) return std::nullopt;
  Finding finding = finding_of(
      "oversized-arena", Severity::warning, Confidence::likely,
      fmt::format("{}'s arena held {} of unused memory at the peak", model.name, format_bytes(*unused)),
      "The arena grows to the next power of two and does not shrink.",
      figures("arena_unused_bytes", *unused, "peak_bytes", model.layers->peak));
  // The best cure depends on the model: with a text detector the first one saved 29 %, and the others made it
  // larger. --try measures them.
  if (is_onnxruntime(model)) {
    if (is_on_cpu(model))
      add_settings(finding, model,
                   "disable the memory pattern: its planned block comes in addition to earlier blocks",
                   "pattern=off", unused);
    add_settings(finding, model, "let the arena grow by the requested size only (it can also become larger)",
                 "extend=same_as_requested", unused);
    if (is_on_cpu(model))
      add_settings(finding, model, "disable the arena (each run allocates from the C library)", "arena=off");
  }
  finding.cures.push_back(
      {"release unused arena memory after each run", "memory.enable_memory_arena_shrinkage=cpu:0"});
  finding.cures.push_back({"let Headroom try more settings", "headroom bench --tune"});
  return finding;
}

std::optional<Finding> oversized_workspace(const ModelResult& model, const BenchResult&) {
  const auto workspace = large_share(model, MemoryKind::workspace);
  if (!workspace) return std::nullopt;
  Finding finding = finding_of("oversized-workspace", Severity::warning, Confidence::likely,
                               fmt::format("{} of {}'s peak were workspace of individual operators",
                                           format_bytes(*workspace), model.name),
                               "Some algorithms trade memory for time: an unrolled convolution stores each "
                               "pixel once for each element of its kernel.",
                               figures("workspace_bytes", *workspace, "peak_bytes", model.layers->peak));
  if (!is_on_cpu(model))
    add_settings(finding, model, "choose convolutions that need little workspace", "workspace=small",
                 workspace);
  add_settings(finding, model, "use one thread: each thread has its own workspace (slower)", "threads=1");
  finding.cures.push_back({"see which operators use the workspace", "headroom bench --layers"});
  return finding;
}

std::optional<Finding> smaller_settings(const ModelResult& model, const BenchResult&) {
  if (!model.smallest_settings) return std::nullopt;
  std::optional<Bytes> now, small;
  for (const TuneTrial& trial : model.trials) {
    if (trial.settings == model.settings) now = trial.counted_peak();
    if (trial.settings == *model.smallest_settings) small = trial.counted_peak();
  }
  if (!now || !small || *now - *small < kLeastOfModels) return std::nullopt;
  const Bytes saved = *now - *small;
  const bool is_search = model.settings.conv_search == ConvSearch::exhaustive &&
                         model.smallest_settings->conv_search != ConvSearch::exhaustive;
  return finding_of(
      is_search ? "convolution-search" : "smaller-settings", Severity::note, Confidence::certain,
      fmt::format("{} needs {} less with other settings, at 95 % of the speed or more", model.name,
                  format_bytes(saved)),
      is_search ? "The search for the fastest convolutions needs workspace." : "Measured by --tune.",
      figures("peak_bytes", *now, "smallest_peak_bytes", *small),
      {with_settings(model, "use the smallest settings that --tune found",
                     changed_settings(model.settings, *model.smallest_settings), saved)});
}

// The search times algorithms that need much memory, and the arena keeps that memory.
std::optional<Finding> convolution_search(const ModelResult& model, const BenchResult&) {
  if (is_on_cpu(model) || !is_onnxruntime(model) || model.gpu_memory.empty()) return std::nullopt;
  if (model.settings.conv_search != ConvSearch::exhaustive || model.smallest_settings) return std::nullopt;
  const GpuMemory& gpu = model.gpu_memory.front();
  if (!gpu.loaded || !gpu.run_peak) return std::nullopt;
  const Bytes beyond = *gpu.run_peak - *gpu.loaded;
  if (beyond < mebibytes(256) || beyond < *gpu.loaded) return std::nullopt;
  Finding finding = finding_of("convolution-search", Severity::note, Confidence::possible,
                               fmt::format("{} needs {} on {} after loading, and {} more to run", model.name,
                                           format_bytes(*gpu.loaded), gpu.device, format_bytes(beyond)),
                               "The search for the fastest convolutions needs workspace, and the arena keeps "
                               "it. Or the activations are that large.",
                               figures("loaded_bytes", *gpu.loaded, "run_peak_bytes", *gpu.run_peak));
  add_settings(finding, model, "choose convolutions by heuristics, without the search",
               "convolutions=heuristic");
  add_settings(finding, model, "search only convolutions that need little workspace", "workspace=small");
  add_settings(finding, model, "let the arena grow by the requested size only", "extend=same_as_requested");
  return finding;
}

std::optional<Finding> pinned_memory_on_unified_memory(const ModelResult& model, const BenchResult&) {
  for (const GpuMemory& gpu : model.gpu_memory) {
    if (!gpu.is_integrated.value_or(false) || gpu.pinned_host.value_or(Bytes{}) < kLeastOfModels) continue;
    return finding_of(
        "pinned-memory-on-unified-memory", Severity::warning, Confidence::likely,
        fmt::format(
            "{} holds {} of pinned memory besides the memory of {}, which is the same physical memory",
            model.name, format_bytes(*gpu.pinned_host), gpu.device),
        "Pinned memory makes copies to a GPU fast. An integrated GPU needs no copy: the same memory then "
        "holds the data twice, and the kernel cannot swap pinned pages.",
        figures("pinned_host_bytes", *gpu.pinned_host),
        {{"use one buffer for CPU and GPU", "cudaHostAlloc(…, cudaHostAllocMapped)", gpu.pinned_host},
         {"load data without pinning", "DataLoader(pin_memory=False)"}});
  }
  return std::nullopt;
}

// One finding for all models, as they read the frames of one source.
std::vector<Finding> large_frame_buffers(const BenchResult& run) {
  const ModelResult* model = nullptr;  // with most frames
  for (const ModelResult& each : run.models) {
    const auto &frames = each.memory.frames, &peak = each.memory.run_peak;
    if (!frames || !peak || frames->count < 4 * kLeastOfModels.count || frames->count * 4 < peak->count)
      continue;
    if (model == nullptr || *model->memory.frames < *frames) model = &each;
  }
  if (model == nullptr) return {};
  const Bytes frames = *model->memory.frames, peak = *model->memory.run_peak;
  Finding finding = finding_of("large-frame-buffers", Severity::note, Confidence::certain,
                               fmt::format("{} of the {} peak of {} are decoded frames", format_bytes(frames),
                                           format_bytes(peak), model->name),
                               "The run keeps more or larger frames in memory than the model needs at once.",
                               figures("frames_bytes", frames, "run_peak_bytes", peak));
  // A buffer has the size of the source's largest frame.
  const std::int64_t size = run.source ? run.source->largest_frame.count : 0;
  constexpr std::int64_t kEnough = 8;
  const std::int64_t held = size > 0 ? frames.count / size : 0, fewer = std::min(kEnough, held / 2);
  if (held > 0) finding.figures.push_back({"frames_held", held});
  if (fewer > 0)
    finding.cures.push_back({fmt::format("keep {} frames in memory instead of {}", fewer, held),
                             fmt::format("--max-frames-in-mem {}", fewer),
                             Bytes{frames.count / held * (held - fewer)},
                             CureSettings{model->name, "", fewer}});
  finding.cures.push_back(
      {"use pictures of the model's input size: a picture is decoded whole and scaled down afterwards"});
  return {std::move(finding)};
}

}  // namespace

Cure with_settings(const ModelResult& model, std::string what, const std::string& settings,
                   std::optional<Bytes> saves) {
  return {std::move(what), fmt::format("--model {}=PATH,{}", model.name, settings), saves,
          CureSettings{model.name, settings}};
}

void add_settings(Finding& finding, const ModelResult& model, const char* what, const char* settings,
                  std::optional<Bytes> saves) {
  RuntimeSettings changed = model.settings;
  set_settings(changed, settings);
  if (!(changed == model.settings)) finding.cures.push_back(with_settings(model, what, settings, saves));
}

std::vector<Finding> run_findings(const BenchResult& result, const std::string& file) {
  std::vector<Finding> findings;
  const auto add = [&](Finding found, const ModelResult* model) {
    complete_commands(found, result, model);
    findings.push_back(std::move(found));
  };
  // In the order of the report among findings of equal severity.
  for (const ModelResult& model : result.models)
    for (const auto look_for :
         {model_out_of_memory, model_failed, limit_exceeded, leak_of_cleanups, load_peak_over_run_peak,
          loading_leaves_copies, oversized_arena, oversized_workspace, smaller_settings, convolution_search,
          pinned_memory_on_unified_memory})
      if (std::optional<Finding> found = look_for(model, result)) add(std::move(*found), &model);
  for (const auto look_for : {run_incomplete, models_do_not_fit_together, models_failed_together, soft_limit,
                              throttled_run, large_frame_buffers, duplicate_models, model_leaves_memory})
    for (Finding& found : look_for(result)) add(std::move(found), nullptr);
  complete_evidence(findings, file);
  return findings;
}

}  // namespace headroom::doctor
