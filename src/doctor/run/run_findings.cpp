#include "doctor/run/run_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/cure_trials.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

// Replaces "--model NAME=PATH,mapped=on" by a command with the model and options of the run. A model that
// must be prepared outside the limit needs two commands.
void complete_settings(Finding& finding, const BenchResult& result) {
  if (!result.options) return;
  for (Cure& cure : finding.cures) {
    // --try measures one session for all models, but a user must change the program for it.
    if (!cure.settings || cure.settings->leave_out_also) continue;
    const auto model = std::find_if(result.models.begin(), result.models.end(), [&](const ModelResult& each) {
      return each.name == cure.settings->model;
    });
    if (model != result.models.end()) cure.command = bench_command(result, *model, cure.settings);
  }
}

// Completes "headroom bench", with "--tune" or "--layers", in the same way. Without "--tune", the command has
// no limits: what ran out of memory under them would do so again.
void complete_flags(Finding& finding, const BenchResult& result, const ModelResult& model) {
  constexpr std::string_view kBench = "headroom bench";
  if (!result.options) return;
  for (Cure& cure : finding.cures) {
    if (!cure.command.starts_with(kBench)) continue;
    const std::string flags(trim(std::string_view(cure.command).substr(kBench.size())));
    if (!flags.empty() && flags != "--tune" && flags != "--layers") continue;
    BenchResult run = result;
    if (flags != "--tune") {
      run.options->memory_limit.reset();
      run.options->gpu_memory_limit.clear();
    }
    std::vector<std::string> words = bench_arguments(run, model, std::nullopt);
    words.insert(words.begin(), "headroom");
    if (!flags.empty()) words.push_back(flags);
    cure.command = shell_command(words);
  }
}

}  // namespace

Bytes peak_of(const ModelMemory& memory) {
  return std::max(memory.load_peak.value_or(Bytes{}), memory.run_peak.value_or(Bytes{}));
}

Cure with_settings(const ModelResult& model, std::string what, const std::string& settings,
                   std::optional<Bytes> saves) {
  return {std::move(what), fmt::format("--model {}=PATH,{}", model.name, settings), saves,
          CureSettings{model.name, settings}};
}

void add_settings(Finding& finding, const ModelResult& model, std::string what, const std::string& settings,
                  std::optional<Bytes> saves) {
  RuntimeSettings changed = model.settings;
  set_settings(changed, settings);
  if (!(changed == model.settings))
    finding.cures.push_back(with_settings(model, std::move(what), settings, saves));
}

void add_leaner_settings(Finding& finding, const ModelResult& model) {
  const auto add = [&](const char* what, const char* settings, std::optional<Bytes> saves = std::nullopt) {
    add_settings(finding, model, what, settings, saves);
  };
  if (!is_on_cpu(model)) {
    add("choose convolutions that need little workspace", "workspace=small");
    add("choose convolutions by heuristics: the search needs workspace too", "convolutions=heuristic");
    if (is_onnxruntime(model))
      add("let the arena grow by the requested size, not to the next power of two",
          "extend=same_as_requested");
    return;
  }
  if (model.backend == "libtorch") return;  // it has none of these settings
  add("disable the memory pattern, which plans blocks ahead", "pattern=off");
  if (!is_onnxruntime(model)) return;
  // Mapped weights are pages of a file, which the kernel can reclaim.
  if (can_map(model)) add("map the weights from a prepared file", "mapped=on", model.file_size);
  add("disable the arena", "arena=off");
  add("keep no re-packed copies of the weights (slower runs)", "prepack=off");
}

Cure smaller_input() {
  return {"use a smaller input: --imgsz 320 (models with a fixed input size ignore it)"};
}

// The report exists from the start, so the report of a killed run looks like any other.
std::vector<Finding> run_incomplete(const BenchResult& run) {
  if (run.complete) return {};
  Finding finding{
      .id = "run-incomplete",
      .severity = Severity::warning,
      .title = "The run did not finish",
      .cause =
          "The run was interrupted or killed, or it is still running. The report contains the measurements "
          "so far.",
      .confidence = Confidence::possible,
      .cures = {{"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -"}}};
  for (const ModelResult& model : run.models)
    if (model.status != ModelStatus::ok && !model.error.empty())
      finding.evidence.push_back({.text = model.name + ": " + model.error});
  return {std::move(finding)};
}

std::vector<Finding> throttled_run(const BenchResult& run) {
  for (const MetricSummary& metric : run.system)
    if (metric.name == "throttled" && metric.max > 0)
      return {Finding{
          .id = "throttled",
          .severity = Severity::warning,
          .title =
              fmt::format("The board or a GPU was throttled in {:.0f} % of the samples", 100 * metric.mean),
          .cause =
              "Heat or a weak power supply reduced the clocks, so latencies are higher than they could be.",
          .figures = {{"throttled_percent", 100 * metric.mean}},
          .cures = {
              {"cool the board, or choose a lower power mode, and measure again", "sudo nvpmodel -m MODE"}}}};
  return {};
}

std::vector<Finding> run_findings(const BenchResult& result, const std::string& file) {
  std::vector<Finding> findings;
  const auto add = [&](Finding found) {
    complete_settings(found, result);
    complete_evidence(found, file);
    findings.push_back(std::move(found));
  };
  for (const ModelResult& model : result.models)
    for (ModelFinding* look_for : kModelFindings)
      if (std::optional<Finding> found = look_for(model, result)) {
        complete_flags(*found, result, model);
        add(std::move(*found));
      }
  for (RunFinding* look_for : kRunFindings)
    for (Finding& found : look_for(result)) add(std::move(found));
  return findings;
}

}  // namespace headroom::doctor
