// Findings about the memory of loaded models: copies of the weights, models loaded twice, memory that stays.
//
// model_leaves_memory compares what is resident after a model was released with the bare runtime
// (docs/figures.md). Something always stays: pages of code that were needed for the first time, and free
// blocks of a fragmented heap. In 111 runs of small models, 16 MiB at most stayed. Of larger ones, ONNX
// Runtime left 30 to 65 MiB: 62 % of a small text recogniser, less than 25 % of the others. LibTorch
// left 31.7 of 96. So the finding needs half of the model's memory, at least 64 MiB, and 32 MiB more than all
// file pages of the process, which may all be new code.
//
// On a GPU, the process keeps the code and tables of the driver and libraries: 666 of 668 MiB with resnet50
// and ONNX Runtime (benchmarks/results/gpu_inference.json). The finding is not for these.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/cure_trials.h"
#include "doctor/run/run_findings.h"
#include "monitoring/series_growth.h"
#include "report/words.h"

namespace headroom::doctor {
namespace {

constexpr const char* kMapAll =
    "map the weights from a prepared file, and keep no re-packed copies (may be slower)";
constexpr const char* kNoPacked = "keep no re-packed copies of the weights (may be slower)";

// The peak of a model's process without pages of files, which other processes can share. It comes from the
// run of all models at once, if there is one. Without these figures it is the file's size.
Bytes private_peak(const BenchResult& run, const ModelResult& model) {
  const ModelResult* measured = &model;
  if (run.parallel)
    for (const ModelResult& together : run.parallel->together)
      if (together.name == model.name) measured = &together;
  const ModelMemory& memory = measured->memory;
  const Bytes most = report::peak_of(*measured).value_or(Bytes{});
  const Bytes shared = memory.file_backed_peak.value_or(memory.runtime.value_or(most));
  return shared < most ? most - shared : model.file_size.value_or(Bytes{});
}

// The same path, or another name of one file.
bool is_same_file(const ModelResult& a, const ModelResult& b) {
  std::error_code code;  // the files may be gone or on another machine
  return a.path == b.path || std::filesystem::equivalent(a.path, b.path, code);
}

using Models = std::vector<const ModelResult*>;

std::vector<Models> models_by_file(const BenchResult& run) {
  std::vector<Models> groups;
  for (const ModelResult& model : run.models) {
    auto same =
        std::ranges::find_if(groups, [&](const auto& group) { return is_same_file(*group.front(), model); });
    if (same == groups.end()) same = groups.emplace(groups.end());
    same->push_back(&model);
  }
  return groups;
}

Finding duplicates_of(const Models& models, const BenchResult& run) {
  const ModelResult& first = *models.front();
  const Bytes size = *first.file_size;
  const auto count = static_cast<std::int64_t>(models.size());
  std::vector<std::string> names;
  Bytes all;
  for (const ModelResult* model : models) {
    names.push_back(model->name);
    all += private_peak(run, *model);
  }
  Finding finding = finding_of(
      "duplicate-models", Severity::warning, Confidence::certain,
      fmt::format("{} and {} are the same file: its weights are in memory {} times",
                  fmt::join(names.begin(), names.end() - 1, ", "), names.back(), count),
      "Each session has its own copy of the weights.", figures("model", first.path, "file_bytes", size));
  // --try measures one shared session as the run with one of the models alone.
  CureSettings shared{.model = first.name, .settings = "", .leave_out_also = true};
  for (std::size_t i = 1; i < models.size(); ++i) shared.also.push_back(models[i]->name);
  finding.cures = {{"let all users share one session, as headroom/model_pool.h does", "",
                    all - private_peak(run, first), shared}};
  if (!std::ranges::all_of(models, [](const ModelResult* model) { return can_map(*model); })) return finding;
  // Mapping shares weights, not activations or arenas: as read, re-packed, and while they are converted.
  constexpr std::int64_t kMostCopies = 3;
  Cure map = with_settings(first, "map the weights: all sessions share the pages of one prepared file",
                           "mapped=on,prepack=off",
                           std::min(all, Bytes{count * kMostCopies * size.count}) - std::min(all, size));
  map.command = fmt::format("--model NAME=PATH,{}", map.settings->settings);
  map.settings->also = shared.also;
  finding.cures.push_back(std::move(map));
  return finding;
}

// A command that runs this model alone again, behind `words`. It uses the run's options if the report has
// them.
std::vector<std::string> run_again(const BenchResult& run, const ModelResult& model,
                                   const std::string& more_settings, std::vector<std::string> words = {}) {
  words.emplace_back("headroom");
  std::vector<std::string> arguments{"bench", "--model", fmt::format("{}={}", model.name, model.path)};
  if (run.options) {
    BenchResult unlimited = run;
    unlimited.options->memory_limit.reset();  // a pool or a tracer may not fit
    arguments = bench_arguments(unlimited, model);
  }
  for (std::size_t i = 0; i < arguments.size(); ++i)
    words.push_back(arguments[i] + (i > 0 && arguments[i - 1] == "--model" ? more_settings : ""));
  return words;
}

std::optional<Finding> left_behind(const ModelResult& model, const BenchResult& run) {
  const ModelMemory& memory = model.memory;
  if (model.status != ModelStatus::ok || !is_on_cpu(model) || !model.gpu_memory.empty()) return std::nullopt;
  if (!memory.residual || !memory.runtime) return std::nullopt;
  // Frames are not part of the model, and are released as well.
  const Bytes run_peak = memory.run_peak.value_or(Bytes{}) - memory.frames.value_or(Bytes{});
  // Both over the bare runtime.
  const Bytes left = *memory.residual - *memory.runtime;
  const Bytes taken = std::max(memory.load_peak.value_or(Bytes{}), run_peak) - *memory.runtime;
  const Bytes code = memory.file_backed_peak.value_or(Bytes{});
  if (left < mebibytes(64) || left - code < mebibytes(32) || taken.count <= 0 || 2 * left.count < taken.count)
    return std::nullopt;
  // The model pool's process contains the runtime, too.
  std::vector<std::string> pool = run_again(run, model, ",isolated=on");
  pool.insert(pool.end(), {"--pool", fmt::format("{}MiB", mebibytes_above(*report::peak_of(model)))});
  return finding_of("model-leaves-memory", Severity::warning, Confidence::possible,
                    fmt::format("{} used {} and left {} in memory after its release", model.name,
                                format_bytes(taken), format_bytes(left)),
                    "A cache or an object that outlives the model keeps this memory, or the heap is "
                    "fragmented. The next model needs its memory in addition.",
                    figures("level", "model", "left_bytes", left, "taken_bytes", taken, "residual_bytes",
                            *memory.residual, "runtime_bytes", *memory.runtime),
                    {{"run it in its own process, as the model pool does: unloading releases all of its "
                      "memory (ModelPool, .isolated = true)",
                      shell_command(pool), left},
                     {"let freed large blocks return to the system at once, which leaves less if the heap is "
                      "the cause (or call malloc_trim(0) after the release)",
                      shell_command(run_again(run, model, "", {"MALLOC_MMAP_THRESHOLD_=131072"})), left},
                     {"otherwise, find the call stack that keeps it",
                      shell_command(run_again(run, model, "", {"headroom", "trace", "--"}))}});
}

}  // namespace

std::optional<Finding> load_peak_over_run_peak(const ModelResult& model, const BenchResult&) {
  const auto &load = model.memory.load_peak, &run = model.memory.run_peak;
  if (!load || !run || *load - *run < kLeastOfModels || load->count * 4 < run->count * 5) return std::nullopt;
  Finding finding = finding_of(
      "load-peak-over-run-peak", Severity::warning, Confidence::likely,
      fmt::format("{} needs {} to load and {} to run", model.name, format_bytes(*load), format_bytes(*run)),
      "Loading holds the file, the weights and their re-packed copies at once.",
      figures("load_peak_bytes", *load, "run_peak_bytes", *run));
  // mapped=on alone keeps re-packed copies in addition: the run peak of a model with large matrices grew by
  // 78 %.
  if (can_map(model))
    finding.cures.push_back(with_settings(model, kMapAll, "mapped=on,prepack=off", *load - *run));
  else if (is_onnxruntime(model) && model.settings.prepacking)
    finding.cures.push_back(with_settings(model, kNoPacked, "prepack=off"));
  finding.cures.push_back({"load it first, before the other models", "headroom plan BUDGET.toml"});
  return finding;
}

// Memory of loading may stay in the heap, and then the run peak is not below the load peak. A model with 64
// MiB of weights that are transposed while loading held 220 MiB from then on, and 76 with mapped weights.
std::optional<Finding> loading_leaves_copies(const ModelResult& model, const BenchResult&) {
  const auto &loaded = model.memory.loaded, &runtime = model.memory.runtime, &file = model.file_size;
  if (!loaded || !runtime || !file || !can_map(model) || model.status != ModelStatus::ok) return std::nullopt;
  // The runtime's own code and tables take 20 to 40 MiB more with any model: 42 with one of 3.5 MiB.
  if (file->count < 2 * kLeastOfModels.count) return std::nullopt;
  const Bytes holds = *loaded - *runtime;
  // A model of matrices takes its weights once as they are, and once re-packed.
  if (holds.count < 2 * file->count + 2 * kLeastOfModels.count) return std::nullopt;
  Finding finding = finding_of(
      "loading-leaves-copies", Severity::warning, Confidence::likely,
      fmt::format("{} holds {} after loading, {:.1f} times its file size of {}", model.name,
                  format_bytes(holds), static_cast<double>(holds.count) / static_cast<double>(file->count),
                  format_bytes(*file)),
      "Copies of the weights from loading are still in memory: in use, re-packed, or freed but kept by the "
      "heap.",
      figures("loaded_bytes", *loaded, "runtime_bytes", *runtime, "file_bytes", *file),
      {with_settings(model, kMapAll, "mapped=on,prepack=off", holds - *file)});
  if (model.settings.prepacking) finding.cures.push_back(with_settings(model, kNoPacked, "prepack=off"));
  return finding;
}

// Growth of the resident memory after each object's or video's cleanup.
std::optional<Finding> leak_of_cleanups(const ModelResult& model, const BenchResult&) {
  for (const std::string level : {"object", "video"}) {
    std::vector<std::int64_t> cycles, bytes;
    for (const CleanupPoint& point : model.cleanups) {
      if (point.level != level) continue;
      bytes.push_back(point.resident.count);
      cycles.push_back(static_cast<std::int64_t>(bytes.size()));
    }
    constexpr double kLeast = 2 << 20;
    const auto growth = monitoring::growth_of(cycles, bytes, kLeast);
    if (growth.growth != monitoring::Growth::leak) continue;
    const auto per_cycle = static_cast<std::int64_t>(growth.per_cycle);
    return finding_of(
        "leak", Severity::severe, Confidence::likely,
        fmt::format("{} leaks {} with each {}", model.name, format_bytes({per_cycle}), level),
        fmt::format("Memory that was allocated for one {} remains after its cleanup, {} times in a row.",
                    level, bytes.size()),
        figures("level", level, "leak_bytes", per_cycle, "cycles", std::int64_t(bytes.size())),
        {{fmt::format("release the memory of each {} when it ends", level),
          "del predictor; gc.collect(); torch.cuda.empty_cache()", Bytes{bytes.back() - bytes.front()}},
         {"find the call stack that keeps it", "headroom trace -- COMMAND"}});
  }
  return std::nullopt;
}

// Models that were in memory at the same time: one finding for each file that several of them use.
std::vector<Finding> duplicate_models(const BenchResult& run) {
  std::vector<Finding> findings;
  if (!run.parallel && !run.pipeline) return findings;
  for (const Models& models : models_by_file(run)) {
    const auto& size = models.front()->file_size;
    if (models.size() < 2 || !size || *size < mebibytes(1)) continue;
    // Mapped models share their pages.
    if (!std::ranges::all_of(models, [](const auto* model) { return model->settings.mapped; }))
      findings.push_back(duplicates_of(models, run));
  }
  return findings;
}

std::vector<Finding> model_leaves_memory(const BenchResult& run) {
  std::vector<Finding> findings;
  for (const ModelResult& model : run.models)
    if (std::optional<Finding> found = left_behind(model, run)) findings.push_back(std::move(*found));
  return findings;
}

}  // namespace headroom::doctor
