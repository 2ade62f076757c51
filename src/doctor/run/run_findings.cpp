#include "doctor/run/run_findings.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "doctor/cure_trials.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

const ModelResult* model_of(const BenchResult& result, const CureSettings& cure) {
  const auto named = std::find_if(result.models.begin(), result.models.end(),
                                  [&](const ModelResult& model) { return model.name == cure.model; });
  return named == result.models.end() ? nullptr : &*named;
}

// As it stands "--model NAME=PATH,mapped=on" would not run: with the model and the options of the run. What
// must be prepared outside the limit takes two commands.
void complete_settings(Finding& finding, const BenchResult& result) {
  if (!result.options) return;
  for (Cure& cure : finding.cures) {
    // One session for all is a change of the program; --try measures it all the same.
    if (!cure.settings || cure.settings->leave_out_also) continue;
    if (const ModelResult* model = model_of(result, *cure.settings))
      cure.command = bench_command(result, *model, cure.settings);
  }
}

// Nor would "headroom bench --tune". "headroom bench" alone and "--layers" are the run without its limits:
// what died under them would die again, and tell nothing.
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
    std::vector<std::string> words{"headroom"};
    for (std::string& word : bench_arguments(run, model, std::nullopt)) words.push_back(std::move(word));
    if (!flags.empty()) words.push_back(flags);
    cure.command = shell_command(words);
  }
}

}  // namespace

std::vector<Finding> run_findings(const BenchResult& result, const std::string& file) {
  std::vector<Finding> findings;
  const auto add = [&](Finding found) {
    complete_settings(found, result);
    if (found.evidence.empty()) found.evidence.push_back({});
    for (Evidence& evidence : found.evidence) evidence.file = file;
    findings.push_back(std::move(found));
  };
  for (const ModelResult& model : result.models)
    for (const ModelFinding look_for : model_finding_list())
      if (std::optional<Finding> found = look_for(model, result)) {
        complete_flags(*found, result, model);
        add(std::move(*found));
      }
  for (const RunFinding look_for : run_finding_list())
    for (Finding& found : look_for(result)) add(std::move(found));
  return findings;
}

}  // namespace headroom::doctor
