#include "planning/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "planning/memory_plan.h"

namespace headroom::planning {
namespace {

const ModelResult* model_of(const BudgetComponent& component, const std::vector<ModelResult>& together) {
  for (const ModelResult& model : together)
    if (model.name == component.name) return &model;
  for (const ModelResult& model : together)
    if (!component.need.model.empty() && (model.name == component.need.model ||
                                          std::filesystem::path(model.path).stem() == component.need.model))
      return &model;
  return nullptr;
}

}  // namespace

Result<Verification> verify_plan(const Budget& budget, const BenchResult& run, const std::string& run_name) {
  if (!run.parallel || !run.parallel->joint_peak)
    return usage_error(fmt::format("no joint peak in {}", run_name), "",
                       "run headroom bench with --parallel and the models of the budget");
  Verification result;
  result.run = run_name;
  result.source = run.parallel->joint_peak_source;
  result.is_lower_bound = run.parallel->joint_peak_is_lower_bound;
  Budget both = budget;
  both.components.clear();
  std::vector<std::string> used;
  for (const BudgetComponent& component : budget.components) {
    const ModelResult* model = model_of(component, run.parallel->together);
    const bool is_new = model != nullptr && std::find(used.begin(), used.end(), model->name) == used.end();
    if (!is_new) {
      if (!component.is_system) result.left_out.push_back(component.name);
      continue;
    }
    used.push_back(model->name);
    both.components.push_back(component);
    BudgetComponent& kept = both.components.back();
    kept.is_lazy = false;
    kept.group.clear();
    kept.after.clear();
    kept.needs.clear();
    const MemoryNeed& need = component.need;
    const Bytes planned = std::max(need.load_peak.value_or(Bytes{}),
                                   need.run_peak.value_or(Bytes{}) + need.frame_bytes() + need.transient) -
                          need.kernel + need.shared;
    const Bytes measured =
        std::max(model->memory.load_peak.value_or(Bytes{}), model->memory.run_peak.value_or(Bytes{}));
    result.components.push_back({component.name, planned, measured});
  }
  std::vector<std::string> unknown;
  for (const ModelResult& model : run.parallel->together)
    if (std::find(used.begin(), used.end(), model.name) == used.end()) unknown.push_back(model.name);
  if (!unknown.empty())
    return usage_error(fmt::format("the run {} has {} that the budget lacks: {}", run_name,
                                   unknown.size() == 1 ? "a model" : "models", fmt::join(unknown, ", ")),
                       "", "name the components like the run's models, or set model = \"…\"");
  both.start = StartMode::together;
  both.device.is_control_group = false;
  both.device.system = both.device.desktop = {};
  if (both.device.total <= Bytes{}) both.device.total = Bytes{1};
  auto plan = make_plan(both);
  if (!plan) return forward_error(plan);
  const bool by_group = result.source.starts_with("cgroup");
  Bytes planned = by_group ? plan->charged_peak : plan->machine_peak;
  if (!by_group)  // shares of pages do not include kernel memory
    for (const BudgetComponent& component : both.components) planned = planned - component.need.kernel;
  // The models' shares alone omit the part of the shared pages that counts for the bench's own processes.
  const Bytes measured = by_group ? *run.parallel->joint_peak
                                  : run.parallel->joint_resident_peak.value_or(*run.parallel->joint_peak);
  result.joint = {"joint", planned, measured};
  result.holds =
      result.joint.relative_difference() >= -kMaxUnder && result.joint.relative_difference() <= kMaxOver;
  return result;
}

}  // namespace headroom::planning
