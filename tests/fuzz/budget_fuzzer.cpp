// Budgets: for any file content, the reader returns a budget that can be planned, or an error.
#include "fuzz.h"
#include "planning/budget_reader.h"
#include "planning/changes.h"
#include "planning/footprints.h"
#include "planning/memory_plan.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  auto budget = planning::parse_budget(text, "fuzz.toml");
  if (!budget) {
    if (budget.error().sentence().find('\n') != std::string::npos) __builtin_trap();
    return;
  }
  (void)planning::with_change(*budget, std::string(text.substr(0, 60)));
  auto resolved = planning::resolve_footprints(std::move(*budget), {});
  if (!resolved || resolved->components.size() > 12) return;
  const auto plan = planning::make_plan(*resolved);
  if (!plan) return;
  if (plan->best_peak > plan->worst().total) __builtin_trap();
  for (const planning::Advice& advice : planning::advice_for(*plan))
    if (advice.saved <= Bytes{}) __builtin_trap();
}
