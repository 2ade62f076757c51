#include "doctor/run/run_findings.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "doctor/cure_trials.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

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
  std::vector<Finding> findings;
  const auto add = [&](std::optional<Finding> found) {
    if (!found) return;
    if (found->evidence.empty()) found->evidence.push_back({});
    for (Evidence& evidence : found->evidence) evidence.file = file;
    findings.push_back(std::move(*found));
  };
  for (const ModelResult& model : result.models)
    for (const ModelFinding look_for : model_finding_list()) {
      std::optional<Finding> found = look_for(model);
      if (found) complete_commands(*found, result, model);
      add(std::move(found));
    }
  for (const RunFinding look_for : run_finding_list()) add(look_for(result));
  for (Finding& finding : duplicate_models(result)) {
    const auto named = std::find_if(
        result.models.begin(), result.models.end(),
        [&](const ModelResult& model) { return model.name == finding.cures.front().settings->model; });
    complete_commands(finding, result, *named);
    add(std::move(finding));
  }
  return findings;
}

}  // namespace headroom::doctor
