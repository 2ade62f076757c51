#include "planning/memory_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "types/enum_names.h"

namespace headroom::planning {
namespace {

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

Verdict verdict_of(const MemoryPlan& plan) {
  if (plan.worst().total > plan.total) return Verdict::does_not_fit;
  if (plan.worst().total > plan.allowed) return Verdict::risky;
  return plan.used > plan.budget.rules.healthy_used ? Verdict::tight : Verdict::healthy;
}

std::vector<std::string> reasons_of(const MemoryPlan& plan) {
  const bool decimal = plan.budget.is_decimal;
  const BudgetRules& rules = plan.budget.rules;
  const Bytes peak = plan.worst().total;
  const auto sum = [&](Bytes bytes) { return words_for_sum(bytes, decimal); };
  std::vector<std::string> reasons;
  if (plan.verdict == Verdict::does_not_fit)
    reasons.push_back(fmt::format("the plan needs {} {}, {} more than the device's {}", sum(peak),
                                  words_for(plan.worst(), plan.budget), sum(peak - plan.total),
                                  sum(plan.total)));
  else
    reasons.push_back(fmt::format("at most {} of {} are used ({}), {}", sum(peak), sum(plan.total),
                                  percent(plan.used), words_for(plan.worst(), plan.budget)));
  const Bytes by_share{std::llround(static_cast<double>(plan.total.count) * rules.most_used)};
  if (peak > by_share)
    reasons.push_back(fmt::format("that exceeds the limit of {} ({}), above which the plan is risky",
                                  percent(rules.most_used), sum(by_share)));
  else if (plan.verdict == Verdict::tight)
    reasons.push_back(fmt::format("below the limit of {}, but only by {}: no reserve for growth",
                                  percent(rules.most_used), sum(by_share - peak)));
  if (plan.verdict != Verdict::does_not_fit && plan.available < rules.buffer)
    reasons.push_back(fmt::format("{} stay free, less than the buffer of {} for load peaks and bursts",
                                  sum(plan.available), sum(rules.buffer)));
  if (plan.budget.device.is_control_group && plan.machine_peak > peak)
    reasons.push_back(
        fmt::format("the machine itself needs {}, including shared file pages (code): a group is not charged "
                    "for pages that are already in memory, and the kernel can reclaim the others",
                    sum(plan.machine_peak)));
  else if (has_shared_pages(plan.worst()))
    reasons.push_back(
        fmt::format("a control group with all components except the system is charged {} (--mem-limit), "
                    "without shared file pages (code)",
                    sum(plan.charged_peak)));
  if (plan.unwaited_peak && *plan.unwaited_peak > peak)
    reasons.push_back(
        fmt::format("this assumes that all wait until the last one is loaded; without waiting, the peak can "
                    "be {} (start = \"without waiting\")",
                    sum(*plan.unwaited_peak)));
  if (plan.best_peak < peak)
    reasons.push_back(fmt::format("another start order would need {} less", sum(peak - plan.best_peak)));
  return reasons;
}

std::vector<PlanMoment> moments_of(const Budget& budget, const std::vector<std::size_t>& order,
                                   const Occupancy& occupancy) {
  std::vector<PlanMoment> moments;
  std::vector<bool> started(occupancy.size(), false);
  const auto add = [&](PlanMoment::Kind kind, std::optional<std::size_t> loading,
                       std::vector<Occupancy::Share> shares) {
    const Bytes total = sum_of(shares);
    moments.push_back({kind, loading, std::move(shares), total});
  };
  if (budget.start == StartMode::in_order) {
    for (const std::size_t next : order) {
      add(PlanMoment::Kind::starting, next, occupancy.shares_at_peak(started, next));
      started[next] = true;
    }
  } else {
    for (const std::size_t i : order) started[i] = true;
    add(PlanMoment::Kind::all_starting, {}, occupancy.shares_at_start(started, budget.start));
  }
  add(PlanMoment::Kind::running, {}, occupancy.shares_at_peak(occupancy.all()));
  for (std::size_t i = 0; i < occupancy.size(); ++i)
    if (occupancy.takes_turns(i, occupancy.all()) || occupancy.is_lazy(i))
      add(PlanMoment::Kind::loading, i, occupancy.shares_at_peak(occupancy.all(), i));
  return moments;
}

Bytes peak_of(const std::vector<PlanMoment>& moments) {
  Bytes most;
  for (const PlanMoment& moment : moments) most = std::max(most, moment.total);
  return most;
}

// Prefers "all running" among equal moments, because it lasts.
std::size_t worst_of(const std::vector<PlanMoment>& moments) {
  std::size_t worst = 0;
  for (std::size_t i = 0; i < moments.size(); ++i)
    if (moments[i].total > moments[worst].total ||
        (moments[i].total == moments[worst].total && moments[i].kind == PlanMoment::Kind::running))
      worst = i;
  return worst;
}

const ModelResult* model_of(const BudgetComponent& component, const std::vector<ModelResult>& together) {
  for (const ModelResult& model : together)
    if (model.name == component.name) return &model;
  for (const ModelResult& model : together)
    if (!component.need.model.empty() && (model.name == component.need.model ||
                                          std::filesystem::path(model.path).stem() == component.need.model))
      return &model;
  return nullptr;
}

// Adds rows for the device's system and desktop, unless the budget has its own system rows.
Budget with_device_rows(Budget budget) {
  if (std::ranges::any_of(budget.components, &BudgetComponent::is_system)) return budget;
  std::vector<BudgetComponent> rows;
  const auto add = [&](const char* name, Bytes bytes, const char* notes) {
    if (bytes <= Bytes{}) return;
    BudgetComponent row;
    row.name = name;
    while (std::ranges::any_of(budget.components,
                               [&](const BudgetComponent& other) { return other.name == row.name; }))
      row.name += " (device)";
    row.notes = notes;
    row.is_system = row.is_required = true;
    row.value = 0;
    row.need.load_peak = row.need.run_mean = row.need.run_peak = bytes;
    row.need.origin.source = budget.device.source;
    rows.push_back(std::move(row));
  };
  add("System", budget.device.system, "OS, drivers");
  if (budget.has_desktop) add("Desktop", budget.device.desktop, "graphical session");
  budget.components.insert(budget.components.begin(), rows.begin(), rows.end());
  return budget;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  return name_in({"healthy", "tight", "risky", "does_not_fit"}, verdict);
}

std::string_view words_for(Verdict verdict) {
  return name_in({"healthy", "tight but viable", "risky", "does not fit"}, verdict);
}

std::string_view name_of(PlanMoment::Kind kind) {
  return name_in({"starting", "all_starting", "running", "loading"}, kind);
}

bool has_shared_pages(const PlanMoment& moment) {
  return std::ranges::any_of(moment.shares, [](const Occupancy::Share& share) { return !share.component; });
}

Result<MemoryPlan> make_plan(const Budget& budget, PlanDetail detail) {
  if (budget.device.total <= Bytes{})
    return usage_error(fmt::format("no device in {}", budget.name), "",
                       "use --device orin-nx-16gb or --live, or write [device] with a total");
  MemoryPlan plan;
  plan.budget = with_device_rows(budget);
  if (plan.budget.components.empty())
    return usage_error(fmt::format("no component in {}", budget.name), "", "write [[component]]");
  using SharedPages = Occupancy::SharedPages;
  const bool is_group = plan.budget.device.is_control_group;
  const Occupancy occupancy(plan.budget, is_group ? SharedPages::excluded : SharedPages::counted);
  plan.order = given_start_order(occupancy);
  plan.moments = moments_of(plan.budget, plan.order, occupancy);
  plan.worst_moment = worst_of(plan.moments);
  plan.running = occupancy.at_peak(occupancy.all());
  plan.rest = occupancy.at_rest();
  const BudgetRules& rules = plan.budget.rules;
  plan.total = plan.budget.device.total;
  const Bytes by_share{std::llround(static_cast<double>(plan.total.count) * rules.most_used)};
  plan.allowed = std::max(Bytes{}, std::min(by_share, plan.total - rules.buffer));
  plan.available = plan.total - plan.worst().total;
  plan.used = static_cast<double>(plan.worst().total.count) / static_cast<double>(plan.total.count);
  plan.verdict = verdict_of(plan);
  plan.machine_peak = plan.charged_peak = plan.best_peak = plan.worst().total;
  if (detail == PlanDetail::peak_alone) return plan;
  Budget others = plan.budget;
  // The machine's system is not part of the control group.
  for (BudgetComponent& component : others.components)
    if (component.is_system && !is_group) component.need = {};
  const Occupancy otherwise(others, is_group ? SharedPages::counted : SharedPages::excluded);
  (is_group ? plan.machine_peak : plan.charged_peak) =
      peak_of(moments_of(plan.budget, plan.order, otherwise));
  if (plan.budget.start == StartMode::together) {
    Budget unwaited = plan.budget;
    unwaited.start = StartMode::without_waiting;
    plan.unwaited_peak = peak_of(moments_of(unwaited, plan.order, occupancy));
  }
  plan.best_order = best_start_order(occupancy, occupancy.all());
  plan.best_peak = lowest_peak_of(occupancy, occupancy.all(), plan.budget.start);
  plan.reasons = reasons_of(plan);
  if (plan.verdict == Verdict::risky || plan.verdict == Verdict::does_not_fit)
    plan.fitting = largest_set(plan.budget, occupancy, plan.allowed, plan.budget.start);
  return plan;
}

std::string words_for_part(Bytes bytes, bool is_decimal) {
  if (!is_decimal) return format_bytes(bytes);
  constexpr double kMegabyte = 1e6;
  const double megabytes = static_cast<double>(bytes.count) / kMegabyte;
  return fmt::format("{:.{}f} MB", megabytes, megabytes == std::floor(megabytes) ? 0 : 1);
}

std::string words_for_sum(Bytes bytes, bool is_decimal) {
  if (!is_decimal) return format_bytes(bytes);
  constexpr double kGigabyte = 1e9;
  if (std::abs(bytes.count) < 100'000'000) return words_for_part(bytes, true);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes.count) / kGigabyte);
}

std::string words_for(const PlanMoment& moment, const Budget& budget) {
  if (moment.kind == PlanMoment::Kind::running) return "while all run";
  if (moment.kind == PlanMoment::Kind::all_starting)
    return budget.start == StartMode::without_waiting ? "while all start without waiting"
                                                      : "while all are loaded at once";
  std::size_t others = 0;
  for (const Occupancy::Share& share : moment.shares)
    others += share.component && share.component != moment.loading ? 1 : 0;
  const std::string& name = budget.components[*moment.loading].name;
  const bool only_system = std::ranges::all_of(moment.shares, [&](const Occupancy::Share& share) {
    return !share.component || budget.components[*share.component].is_system;
  });
  if (only_system && budget.components[*moment.loading].is_system)
    return others == 0 ? "before the first component"
                       : fmt::format("before the first component, with {}", name);
  if (others == 0) return fmt::format("while {} is loaded", name);
  return fmt::format("while {} is loaded {}and {} other{}", name,
                     moment.kind == PlanMoment::Kind::loading ? "on demand " : "", others,
                     others == 1 ? " runs" : "s run");
}

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
    const bool is_new = model != nullptr && std::ranges::find(used, model->name) == used.end();
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
    if (std::ranges::find(used, model.name) == used.end()) unknown.push_back(model.name);
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
