// One function a finding, for the run or for each of its models, and one list of them at the end.
#include "doctor/run_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "analysis/series_growth.h"
#include "base/text.h"
#include "doctor/cure_trials.h"

namespace headroom::doctor {
namespace {

using Found = std::optional<Finding>;

Finding finding_of(const char* id, Severity severity, std::string title, std::string cause,
                   Confidence confidence = Confidence::certain) {
  Finding finding;
  finding.id = id;
  finding.severity = severity;
  finding.title = std::move(title);
  finding.cause = std::move(cause);
  finding.confidence = confidence;
  return finding;
}

// Differences below this are the noise of pages and allocators.
constexpr std::int64_t kWorthTelling = 16 << 20;

bool is_onnxruntime(const ModelResult& model) { return model.backend.starts_with("onnxruntime"); }
bool is_on_cpu(const ModelResult& model) { return model.settings.device == "cpu"; }
bool can_map(const ModelResult& model) {
  return is_onnxruntime(model) && is_on_cpu(model) && !model.settings.mapped;
}

// `words` behind the model's path: what a person writes, and what --try runs.
Cure with_settings(const ModelResult& model, std::string what, const std::string& words,
                   std::optional<Bytes> saves = std::nullopt) {
  Cure cure{std::move(what), fmt::format("--model {}=PATH,{}", model.name, words), saves};
  cure.settings = CureSettings{model.name, words};
  return cure;
}

// What takes less memory, the cheapest in time first; only what is not set so already.
void add_leaner_settings(Finding& finding, const ModelResult& model) {
  const auto add = [&](const char* what, const char* words) {
    RuntimeSettings changed = model.settings;
    set_by_words(changed, words);
    if (!(changed == model.settings)) finding.cures.push_back(with_settings(model, what, words));
  };
  if (!is_on_cpu(model)) {
    add("choose convolutions that need little workspace", "workspace=small");
    add("choose convolutions by rules: the search takes workspace, too", "convolutions=heuristic");
    return;
  }
  if (model.backend == "libtorch") return;  // it has none of these
  add("plan no memory ahead", "pattern=off");
  if (!is_onnxruntime(model)) return;
  if (can_map(model)) add("map the weights from a prepared file", "mapped=on");
  add("do without the arena", "arena=off");
  add("keep no re-packed copies of the weights (slower runs)", "prepack=off");
}

// Not tried: it finds less.
Cure smaller_input() {
  return {"use a smaller input, where the model leaves its size open (--imgsz 320)", "", {}};
}

Found out_of_memory(const ModelResult& model) {
  if (model.status != ModelStatus::oom) return std::nullopt;
  const bool while_loading = model.died_in && *model.died_in < Phase::model_loaded;
  Finding finding = finding_of(
      "model-out-of-memory", Severity::severe,
      fmt::format("{} ran out of memory {}", model.name,
                  while_loading ? "while it was loaded" : "while it ran"),
      while_loading
          ? "Loading needs more than running: the file, the weights and their re-packed copies at once."
          : "What a run needs beside the weights did not fit.",
      Confidence::likely);
  finding.evidence = {{"", 0, model.error}};
  if (while_loading && can_map(model))
    finding.cures.push_back(with_settings(
        model, "map the weights from a file that is prepared once, without the limit or on a larger machine",
        "mapped=on,prepack=off"));
  finding.cures.push_back({"search the settings that fit", "headroom bench --tune", {}});
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  finding.cures.push_back({"see which layers hold the memory", "headroom bench --layers", {}});
  return finding;
}

Found over_the_limit(const ModelResult& model) {
  if (model.memory.within_limit.value_or(true) || model.status == ModelStatus::oom) return std::nullopt;
  Finding finding =
      finding_of("limit-exceeded", Severity::severe, fmt::format("{} took more than the limit", model.name),
                 "The limit did not refuse it: on a machine of that size it would have been killed.");
  finding.figures = {{"violations", model.memory.violations}};
  finding.cures = {{"search the settings that fit", "headroom bench --tune", {}}};
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  return finding;
}

Found load_peak(const ModelResult& model) {
  const auto &load = model.memory.load_peak, &run = model.memory.run_peak;
  if (!load || !run || load->count - run->count < kWorthTelling || load->count * 4 < run->count * 5)
    return std::nullopt;
  Finding finding = finding_of(
      "load-peak-over-run-peak", Severity::warning,
      fmt::format("{} needs {} to load and {} to run", model.name, format_bytes(*load), format_bytes(*run)),
      "Loading holds the file, the weights and their re-packed copies at once.", Confidence::likely);
  finding.figures = {{"load_peak_bytes", load->count}, {"run_peak_bytes", run->count}};
  // Not mapped=on alone: the re-packed copies of what is mapped come on top of it (the run peak of a model
  // with large matrices grew by 78 %).
  if (can_map(model)) {
    finding.cures.push_back(with_settings(
        model, "map the weights from a prepared file, and keep no re-packed copies (may be slower)",
        "mapped=on,prepack=off", *load - *run));
  } else if (is_onnxruntime(model) && model.settings.prepacking) {
    finding.cures.push_back(
        with_settings(model, "keep no re-packed copies of the weights (may be slower)", "prepack=off"));
  }
  finding.cures.push_back(
      {"load it first, while the others are not there yet", "headroom plan BUDGET.toml", {}});
  return finding;
}

Found oversized_arena(const ModelResult& model) {
  if (!model.layers) return std::nullopt;
  Bytes unused;
  for (const MemoryShare& share : model.layers->shares)
    if (share.kind == MemoryKind::arena_unused) unused += share.bytes;
  if (unused.count < kWorthTelling || unused.count * 4 < model.layers->peak.count) return std::nullopt;
  Finding finding = finding_of(
      "oversized-arena", Severity::warning,
      fmt::format("{}'s arena held {} that were not in use at the peak", model.name, format_bytes(unused)),
      "The arena grows to the next power of two, and keeps what it has.", Confidence::likely);
  finding.figures = {{"arena_unused_bytes", unused.count}, {"peak_bytes", model.layers->peak.count}};
  // Which of them helps is a matter of the model: of a text detector the first one took 29 %, and the others
  // made it larger (--try tells).
  const auto add = [&](const char* what, const char* words, std::optional<Bytes> saves) {
    RuntimeSettings changed = model.settings;
    set_by_words(changed, words);
    if (!(changed == model.settings)) finding.cures.push_back(with_settings(model, what, words, saves));
  };
  if (is_onnxruntime(model)) {
    if (is_on_cpu(model))
      add("plan no block ahead: it lies beside what was taken before", "pattern=off", unused);
    add("let the arena grow by what is asked for (it can also grow more)", "extend=same_as_requested",
        unused);
    if (is_on_cpu(model))
      add("do without the arena (each run asks the C library)", "arena=off", std::nullopt);
  }
  finding.cures.push_back(
      {"give back after a run what it needed no longer", "memory.enable_memory_arena_shrinkage=cpu:0", {}});
  finding.cures.push_back({"let Headroom try more settings", "headroom bench --tune", {}});
  return finding;
}

Found oversized_workspace(const ModelResult& model) {
  if (!model.layers) return std::nullopt;
  Bytes workspace;
  for (const MemoryShare& share : model.layers->shares)
    if (share.kind == MemoryKind::workspace) workspace += share.bytes;
  if (workspace.count < kWorthTelling || workspace.count * 4 < model.layers->peak.count) return std::nullopt;
  Finding finding = finding_of(
      "oversized-workspace", Severity::warning,
      fmt::format("{} of {}'s peak were workspace of single operators", format_bytes(workspace), model.name),
      "Some ways to compute an operator trade memory for time: an unrolled convolution holds each pixel as "
      "often as "
      "its kernel is large.",
      Confidence::likely);
  finding.figures = {{"workspace_bytes", workspace.count}, {"peak_bytes", model.layers->peak.count}};
  if (!is_on_cpu(model))
    finding.cures.push_back(
        with_settings(model, "choose convolutions that need little workspace", "workspace=small", workspace));
  finding.cures.push_back(
      with_settings(model, "use one thread: each has a workspace of its own (slower)", "threads=1"));
  finding.cures.push_back({"see which operators take it", "headroom bench --layers", {}});
  return finding;
}

// The search times algorithms that need much memory, and the arena keeps what they took.
Found convolution_search(const ModelResult& model) {
  if (is_on_cpu(model) || !is_onnxruntime(model) || model.gpu_memory.empty()) return std::nullopt;
  if (model.settings.conv_search != ConvSearch::exhaustive || model.smallest_settings) return std::nullopt;
  const GpuMemory& gpu = model.gpu_memory.front();
  if (!gpu.loaded || !gpu.run_peak) return std::nullopt;
  const Bytes beyond = *gpu.run_peak - *gpu.loaded;
  constexpr std::int64_t kMuch = 256 << 20;
  if (beyond.count < kMuch || beyond < *gpu.loaded) return std::nullopt;
  Finding finding =
      finding_of("convolution-search", Severity::note,
                 fmt::format("{} takes {} on {} once it is loaded and {} more to run", model.name,
                             format_bytes(*gpu.loaded), gpu.device, format_bytes(beyond)),
                 "The search for the fastest convolutions takes workspace, and the arena keeps it; or the "
                 "activations are as large.",
                 Confidence::possible);
  finding.figures = {{"loaded_bytes", gpu.loaded->count}, {"run_peak_bytes", gpu.run_peak->count}};
  finding.cures = {
      with_settings(model, "choose convolutions by rules, without the search", "convolutions=heuristic"),
      with_settings(model, "search among those that need little workspace", "workspace=small"),
      with_settings(model, "let the arena grow by what is asked for", "extend=same_as_requested")};
  return finding;
}

Found pinned_on_unified(const ModelResult& model) {
  for (const GpuMemory& gpu : model.gpu_memory) {
    if (!gpu.is_integrated.value_or(false) || !gpu.pinned_host || gpu.pinned_host->count < kWorthTelling)
      continue;
    Finding finding = finding_of(
        "pinned-memory-on-unified-memory", Severity::warning,
        fmt::format("{} holds {} of pinned memory beside that of {}, which is the same memory", model.name,
                    format_bytes(*gpu.pinned_host), gpu.device),
        "Pinned memory makes copies to a GPU fast. An integrated GPU needs no copy: what lies there twice "
        "is twice in one memory, and pinned pages cannot be swapped.",
        Confidence::likely);
    finding.figures = {{"pinned_host_bytes", gpu.pinned_host->count}};
    finding.cures = {{"give both sides one buffer", "cudaHostAlloc(…, cudaHostAllocMapped)", gpu.pinned_host},
                     {"load data without pinning", "DataLoader(pin_memory=False)", {}}};
    return finding;
  }
  return std::nullopt;
}

Found smaller_settings(const ModelResult& model) {
  if (!model.smallest_settings) return std::nullopt;
  std::optional<Bytes> now, small;
  for (const TuneTrial& trial : model.trials) {
    if (trial.settings == model.settings) now = trial.counted_peak();
    if (trial.settings == *model.smallest_settings) small = trial.counted_peak();
  }
  if (!now || !small || now->count - small->count < kWorthTelling) return std::nullopt;
  const bool is_search = model.settings.conv_search == ConvSearch::exhaustive &&
                         model.smallest_settings->conv_search != ConvSearch::exhaustive;
  Finding finding = finding_of(
      is_search ? "convolution-search" : "smaller-settings", Severity::note,
      fmt::format("{} takes {} less with other settings, at 95 % of the speed or more", model.name,
                  format_bytes(*now - *small)),
      is_search ? "The search for the fastest convolutions takes workspace." : "Measured by --tune.");
  finding.figures = {{"peak_bytes", now->count}, {"smallest_peak_bytes", small->count}};
  finding.cures = {with_settings(model, "use the smallest settings that --tune found",
                                 changed_words(model.settings, *model.smallest_settings), *now - *small)};
  return finding;
}

Found large_frames(const ModelResult& model) {
  const auto &frames = model.memory.frames, &peak = model.memory.run_peak;
  if (!frames || !peak || frames->count < 4 * kWorthTelling || frames->count * 4 < peak->count)
    return std::nullopt;
  Finding finding =
      finding_of("large-frame-buffers", Severity::note,
                 fmt::format("{} of the {} of {} are decoded frames", format_bytes(*frames),
                             format_bytes(*peak), model.name),
                 "Frames are kept in memory, larger or more of them than the model needs at once.");
  finding.figures = {{"frames_bytes", frames->count}, {"run_peak_bytes", peak->count}};
  constexpr std::int64_t kFewer = 8;
  Cure fewer{"keep fewer of them", fmt::format("--max-frames-in-mem {}", kFewer), Bytes{frames->count / 2}};
  fewer.settings = CureSettings{model.name, ""};
  fewer.settings->max_frames_in_memory = kFewer;
  finding.cures = {std::move(fewer)};
  return finding;
}

// The ends of objects and of videos, after their state was cleaned.
Found leak(const ModelResult& model) {
  for (const std::string level : {"object", "video"}) {
    std::vector<std::int64_t> cycles, bytes;
    for (const CleanupPoint& point : model.cleanups) {
      if (point.level != level) continue;
      bytes.push_back(point.resident.count);
      cycles.push_back(static_cast<std::int64_t>(bytes.size()));
    }
    constexpr double kLeast = 2 << 20;
    const auto growth = analysis::growth_of(cycles, bytes, kLeast);
    if (growth.growth != analysis::Growth::leak) continue;
    Finding finding = finding_of(
        "leak", Severity::severe,
        fmt::format("{} leaks {} with each {}", model.name,
                    format_bytes({static_cast<std::int64_t>(growth.per_cycle)}), level),
        fmt::format("What was made for one {} is still there after the clean-up, {} times in a row.", level,
                    bytes.size()),
        Confidence::likely);
    finding.figures = {{"level", level},
                       {"leak_bytes", static_cast<std::int64_t>(growth.per_cycle)},
                       {"cycles", static_cast<std::int64_t>(bytes.size())}};
    finding.cures = {
        {fmt::format("release what belongs to one {} at its end", level),
         "del predictor; gc.collect(); torch.cuda.empty_cache()", Bytes{bytes.back() - bytes.front()}},
        {"find the place that keeps it", "headroom trace -- COMMAND", {}}};
    return finding;
  }
  return std::nullopt;
}

Found soft_limit(const BenchResult& result) {
  if (!result.limit || result.limit->type == LimitType::hard) return std::nullopt;
  Finding finding = finding_of(
      "soft-limit", Severity::warning,
      fmt::format("The limit of {} is {}: {}", format_bytes(result.limit->bytes), name_of(result.limit->type),
                  name_of(result.limit->mechanism)),
      "A way to take memory past it was found, or nothing enforces it: a run that fits proves less.");
  for (const LimitRoute& route : result.limit->routes)
    if (route.outcome == "escaped")
      finding.evidence.push_back({"", 0, fmt::format("{} escaped {}", route.name, route.detail)});
  // The run once more, of the first model where there are several; of a report that did not keep its settings
  // the flags alone.
  std::vector<std::string> words{"sudo", "headroom"};
  if (result.options && !result.models.empty()) {
    BenchResult enforced = result;
    enforced.options->limit_mechanism = "cgroup";
    for (std::string& word : bench_arguments(enforced, result.models.front(), std::nullopt))
      words.push_back(std::move(word));
  } else {
    words.insert(words.end(), {"bench", "--mem-limit", fmt::format("{}B", result.limit->bytes.count),
                               "--limit-mechanism", "cgroup"});
  }
  finding.cures = {{"run where a control group can enforce it", shell_command(words), {}}};
  return finding;
}

Found throttled(const BenchResult& result) {
  for (const MetricSummary& metric : result.system)
    if (metric.name == "throttled" && metric.max > 0) {
      Finding finding = finding_of(
          "throttled", Severity::warning,
          fmt::format("The board or a GPU was throttled in {:.0f} % of the samples", 100 * metric.mean),
          "Heat, or more current than the supply gives: latencies are not what they could be.");
      finding.figures = {{"throttled_percent", 100 * metric.mean}};
      finding.cures = {
          {"cool the board, or choose a lower power mode, and measure again", "sudo nvpmodel -m MODE", {}}};
      return finding;
    }
  return std::nullopt;
}

// What a model's process held at its peak that others cannot share: all but pages of files. Of the run of all
// at once, where there is one; the file's size where that was not measured.
Bytes private_peak(const BenchResult& result, const ModelResult& model) {
  const ModelResult* measured = &model;
  if (result.parallel)
    for (const ModelResult& together : result.parallel->together)
      if (together.name == model.name) measured = &together;
  const ModelMemory& memory = measured->memory;
  // What loading took may not have gone back while others were there: the larger of the peaks.
  const Bytes most = std::max(memory.load_peak.value_or(Bytes{}), memory.run_peak.value_or(Bytes{}));
  const Bytes shared = memory.file_backed_peak.value_or(memory.runtime.value_or(most));
  return shared < most ? most - shared : model.file_size.value_or(Bytes{});
}

Bytes private_peaks(const BenchResult& result, const std::vector<const ModelResult*>& models) {
  Bytes sum;
  for (const ModelResult* model : models) sum += private_peak(result, *model);
  return sum;
}

// The same path, another name of one file, or a copy of it.
bool is_same_file(const ModelResult& a, const ModelResult& b) {
  namespace fs = std::filesystem;
  if (a.path == b.path) return true;
  if (!a.file_size || a.file_size != b.file_size) return false;
  std::error_code code;
  if (fs::equivalent(a.path, b.path, code)) return true;
  if (code) return false;  // the run is of another machine, or they are gone
  std::ifstream one(a.path, std::ios::binary), other(b.path, std::ios::binary);
  return one && other &&
         std::equal(std::istreambuf_iterator<char>(one), {}, std::istreambuf_iterator<char>(other), {});
}

std::string names_of(const std::vector<const ModelResult*>& models) {
  std::string names;
  for (std::size_t i = 0; i < models.size(); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : i + 1 == models.size() ? " and " : ", ", models[i]->name);
  return names;
}

// Of models that were in memory at once.
std::vector<Finding> duplicates(const BenchResult& result) {
  std::vector<Finding> found;
  if (!result.parallel && !result.pipeline) return found;
  std::vector<std::vector<const ModelResult*>> groups;
  for (const ModelResult& model : result.models) {
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& group) { return is_same_file(*group.front(), model); });
    if (same == groups.end()) same = groups.emplace(groups.end());
    same->push_back(&model);
  }
  for (const auto& models : groups) {
    const auto& size = models.front()->file_size;
    if (models.size() < 2 || !size || size->count < kWorthTelling / 16) continue;
    const bool share_pages = std::all_of(models.begin(), models.end(),
                                         [](const ModelResult* model) { return model->settings.mapped; });
    if (share_pages) continue;
    Finding finding = finding_of("duplicate-models", Severity::warning,
                                 fmt::format("{} are the same file: its weights are in memory {} times",
                                             names_of(models), models.size()),
                                 "Each session has its own copy of the weights.");
    finding.figures = {{"model", models.front()->path}, {"file_bytes", size->count}};
    // Re-packed copies and arenas are in it, too.
    const std::vector<const ModelResult*> others(models.begin() + 1, models.end());
    const Bytes saved = private_peaks(result, others), all = private_peaks(result, models);
    // Weights are what mapping shares, and no activations or arenas: as they are read, re-packed, and while
    // they are converted.
    constexpr std::int64_t kMostCopies = 3;
    const Bytes weights{static_cast<std::int64_t>(models.size()) * kMostCopies * size->count};
    // --try measures it as the run with one of them alone, which is what all would share.
    CureSettings shared{models.front()->name, ""};
    for (std::size_t i = 1; i < models.size(); ++i) shared.also.push_back(models[i]->name);
    shared.leave_out_also = true;
    Cure share{"let all users share one session, as those of headroom/model_pool.h do", "", saved};
    share.settings = shared;
    finding.cures = {std::move(share)};
    if (std::all_of(models.begin(), models.end(), [](const ModelResult* model) { return can_map(*model); })) {
      const char* const words = "mapped=on,prepack=off";
      Cure map{"map the weights: all share the pages of the one prepared file",
               fmt::format("--model NAME=PATH,{}", words), std::min(all, weights) - std::min(all, *size)};
      map.settings = CureSettings{shared.model, words};
      map.settings->also = shared.also;
      finding.cures.push_back(std::move(map));
    }
    found.push_back(std::move(finding));
  }
  return found;
}

// As they stand "headroom bench --tune" and "--model NAME=PATH,mapped=on" would not run: with the model and
// the options of the run. What must be prepared outside the limit takes two commands.
void complete_commands(Finding& finding, const BenchResult& result, const ModelResult& model) {
  constexpr std::string_view kBench = "headroom bench ";
  if (!result.options) return;
  for (Cure& cure : finding.cures) {
    // One session for all is a change of the program; --try measures it all the same.
    if (cure.settings && !cure.settings->leave_out_also)
      cure.command = bench_command(result, model, cure.settings);
    if (cure.command != "headroom bench --tune" && cure.command != "headroom bench --layers") continue;
    std::vector<std::string> words{"headroom"};
    for (std::string& word : bench_arguments(result, model, std::nullopt)) words.push_back(std::move(word));
    words.push_back(cure.command.substr(kBench.size()));
    cure.command = shell_command(words);
  }
}

}  // namespace

std::vector<Finding> run_findings(const BenchResult& result, const std::string& file) {
  constexpr std::array kOfModels{out_of_memory,    over_the_limit,     leak,
                                 load_peak,        oversized_arena,    oversized_workspace,
                                 smaller_settings, convolution_search, pinned_on_unified,
                                 large_frames};
  constexpr std::array kOfRuns{soft_limit, throttled};
  std::vector<Finding> findings;
  const auto add = [&](Found found) {
    if (!found) return;
    if (found->evidence.empty()) found->evidence.push_back({});
    for (Evidence& evidence : found->evidence) evidence.file = file;
    findings.push_back(std::move(*found));
  };
  for (const ModelResult& model : result.models)
    for (const auto look_for : kOfModels) {
      Found found = look_for(model);
      if (found) complete_commands(*found, result, model);
      add(std::move(found));
    }
  for (const auto look_for : kOfRuns) add(look_for(result));
  for (Finding& finding : duplicates(result)) {
    const auto named = std::find_if(
        result.models.begin(), result.models.end(),
        [&](const ModelResult& model) { return model.name == finding.cures.front().settings->model; });
    complete_commands(finding, result, *named);
    add(std::move(finding));
  }
  return findings;
}

}  // namespace headroom::doctor
