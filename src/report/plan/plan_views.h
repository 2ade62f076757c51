// The views of a plan (headroom plan, docs/plan.md). Pure: from a plan to text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/changes.h"
#include "planning/memory_plan.h"

namespace headroom::report {

// Major version: raised when a key changes its meaning or goes; keys may be added without.
inline constexpr int kPlanSchemaVersion = 1;

struct PlanReport {
  planning::MemoryPlan plan;
  std::vector<planning::Advice> advice;
  std::vector<std::string> what_ifs;                // that were applied
  std::optional<planning::Verdict> verdict_before;  // of the budget without them
  std::optional<Bytes> peak_before;
  std::string baseline;  // of --live: what was measured, in words
  std::string command;   // that made it, for a shell
};

nlohmann::ordered_json plan_to_json(const PlanReport& report);
std::string plan_to_markdown(const PlanReport& report);
// A self-contained page with the moments as stacked bars.
std::string plan_to_html(const PlanReport& report);
std::string plan_to_terminal(const PlanReport& report, bool color, int width);

nlohmann::ordered_json verification_to_json(const planning::Verification& verification);
std::string verification_to_terminal(const planning::Verification& verification, bool color, int width);

// Memory of a running component: run peak, frames and transient buffers.
Bytes running_bytes(const BudgetComponent& component);

}  // namespace headroom::report
