#include "planning/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planning/start_order.h"

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
    reasons.push_back(fmt::format("{} are needed {}, {} more than the {} there are", sum(peak),
                                  words_for(plan.worst(), plan.budget), sum(peak - plan.total),
                                  sum(plan.total)));
  else
    reasons.push_back(fmt::format("at most {} of {} are used ({}), {}", sum(peak), sum(plan.total),
                                  percent(plan.used), words_for(plan.worst(), plan.budget)));
  const Bytes by_share{std::llround(static_cast<double>(plan.total.count) * rules.most_used)};
  if (peak > by_share)
    reasons.push_back(fmt::format("that is over the {} ({}) above which a machine runs out of memory",
                                  percent(rules.most_used), sum(by_share)));
  else if (plan.verdict == Verdict::tight)
    reasons.push_back(fmt::format("below the rule of {}, with {} to it: no room for growth",
                                  percent(rules.most_used), sum(by_share - peak)));
  if (plan.verdict != Verdict::does_not_fit && plan.available < rules.buffer)
    reasons.push_back(fmt::format("{} stay free, less than the buffer of {} for load peaks and bursts",
                                  sum(plan.available), sum(rules.buffer)));
  if (plan.best_peak < peak)
    reasons.push_back(fmt::format("another start order would need {} less", sum(peak - plan.best_peak)));
  return reasons;
}

void add_moments(MemoryPlan& plan, const Occupancy& occupancy) {
  std::vector<bool> started(occupancy.size(), false);
  const auto add = [&](PlanMoment::Kind kind, std::optional<std::size_t> loading,
                       std::vector<Occupancy::Share> shares) {
    const Bytes total = sum_of(shares);
    plan.moments.push_back({kind, loading, std::move(shares), total});
  };
  if (plan.budget.start == StartMode::together) {
    for (const std::size_t i : plan.order) started[i] = true;
    add(PlanMoment::Kind::all_starting, {}, occupancy.shares_at_load(started));
  } else {
    for (const std::size_t next : plan.order) {
      add(PlanMoment::Kind::starting, next, occupancy.shares_at_peak(started, next));
      started[next] = true;
    }
  }
  add(PlanMoment::Kind::running, {}, occupancy.shares_at_peak(occupancy.all()));
  plan.running = plan.moments.back().total;
  for (std::size_t i = 0; i < occupancy.size(); ++i)
    if (occupancy.takes_turns(i, occupancy.all()) || occupancy.is_lazy(i))
      add(PlanMoment::Kind::loading, i, occupancy.shares_at_peak(occupancy.all(), i));
  // Of equal moments the one that lasts: all running.
  for (std::size_t i = 0; i < plan.moments.size(); ++i) {
    const Bytes most = plan.moments[plan.worst_moment].total;
    if (plan.moments[i].total > most ||
        (plan.moments[i].total == most && plan.moments[i].kind == PlanMoment::Kind::running))
      plan.worst_moment = i;
  }
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::healthy:
      return "healthy";
    case Verdict::tight:
      return "tight";
    case Verdict::risky:
      return "risky";
    case Verdict::does_not_fit:
      return "does_not_fit";
  }
  return "";
}

std::string_view words_for(Verdict verdict) {
  switch (verdict) {
    case Verdict::healthy:
      return "healthy";
    case Verdict::tight:
      return "tight but viable";
    case Verdict::risky:
      return "risky";
    case Verdict::does_not_fit:
      return "does not fit";
  }
  return "";
}

std::string_view name_of(PlanMoment::Kind kind) {
  switch (kind) {
    case PlanMoment::Kind::starting:
      return "starting";
    case PlanMoment::Kind::all_starting:
      return "all_starting";
    case PlanMoment::Kind::running:
      return "running";
    case PlanMoment::Kind::loading:
      return "loading";
  }
  return "";
}

Bytes MemoryPlan::charged_peak() const {
  Bytes most;
  for (const PlanMoment& moment : moments) {
    Bytes own;
    for (const Occupancy::Share& share : moment.shares)
      if (share.component) own += share.bytes;
    most = std::max(most, own);
  }
  return most;
}

Budget with_device_rows(Budget budget) {
  const auto is_system = [](const BudgetComponent& component) { return component.is_system; };
  if (std::any_of(budget.components.begin(), budget.components.end(), is_system)) return budget;
  std::vector<BudgetComponent> rows;
  const auto add = [&](const char* name, Bytes bytes, const char* notes) {
    if (bytes <= Bytes{}) return;
    BudgetComponent row;
    row.name = name;
    while (std::any_of(budget.components.begin(), budget.components.end(),
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

Result<MemoryPlan> make_plan(const Budget& budget, bool with_largest_set) {
  if (budget.device.total <= Bytes{})
    return usage_error(fmt::format("{} names no device", budget.name), "",
                       "give --device orin-nx-16gb, write [device] with a total, or give --live");
  MemoryPlan plan;
  plan.budget = with_device_rows(budget);
  if (plan.budget.components.empty())
    return usage_error(fmt::format("{} has no component", budget.name), "", "write [[component]]");
  const Occupancy occupancy(plan.budget);
  plan.order = given_start_order(occupancy);
  add_moments(plan, occupancy);
  plan.rest = occupancy.at_rest(occupancy.all());
  plan.best_order = best_start_order(occupancy, occupancy.all());
  plan.best_peak = lowest_peak_of(occupancy, occupancy.all(), plan.budget.start);
  const BudgetRules& rules = plan.budget.rules;
  plan.total = plan.budget.device.total;
  const Bytes by_share{std::llround(static_cast<double>(plan.total.count) * rules.most_used)};
  plan.allowed = std::max(Bytes{}, std::min(by_share, plan.total - rules.buffer));
  plan.available = plan.total - plan.worst().total;
  plan.used = static_cast<double>(plan.worst().total.count) / static_cast<double>(plan.total.count);
  plan.verdict = verdict_of(plan);
  plan.reasons = reasons_of(plan);
  if (with_largest_set && (plan.verdict == Verdict::risky || plan.verdict == Verdict::does_not_fit))
    plan.fitting = largest_set(plan.budget, occupancy, plan.allowed, plan.budget.start);
  return plan;
}

std::string words_for_part(Bytes bytes, bool is_decimal) {
  if (!is_decimal) return format_bytes(bytes);
  constexpr double kMegabyte = 1e6;
  const double megabytes = static_cast<double>(bytes.count) / kMegabyte;
  return megabytes == std::floor(megabytes) ? fmt::format("{:.0f} MB", megabytes)
                                            : fmt::format("{:.1f} MB", megabytes);
}

std::string words_for_sum(Bytes bytes, bool is_decimal) {
  if (!is_decimal) return format_bytes(bytes);
  constexpr double kGigabyte = 1e9;
  if (std::abs(bytes.count) < 100'000'000) return words_for_part(bytes, true);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes.count) / kGigabyte);
}

std::string words_for(const PlanMoment& moment, const Budget& budget) {
  if (moment.kind == PlanMoment::Kind::running) return "while all run";
  if (moment.kind == PlanMoment::Kind::all_starting) return "while all are loaded at once";
  std::size_t others = 0;
  for (const Occupancy::Share& share : moment.shares)
    others += share.component && share.component != moment.loading ? 1 : 0;
  const std::string& name = budget.components[*moment.loading].name;
  if (others == 0) return fmt::format("while {} is loaded", name);
  return fmt::format("while {} is loaded {}and {} other{}", name,
                     moment.kind == PlanMoment::Kind::loading ? "on demand " : "", others,
                     others == 1 ? " runs" : "s run");
}

}  // namespace headroom::planning
