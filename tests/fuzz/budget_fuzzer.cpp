// Budgets: for any file content, the reader returns a budget that can be planned, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "planning/advice.h"
#include "planning/budget_reader.h"
#include "planning/footprints.h"
#include "planning/memory_plan.h"
#include "planning/what_if.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto budget = planning::parse_budget(text, "fuzz.toml");
  if (!budget) {
    if (budget.error().sentence().find('\n') != std::string::npos) __builtin_trap();
    return 0;
  }
  (void)planning::with_change(*budget, std::string(text.substr(0, 60)));
  auto resolved = planning::resolve_footprints(std::move(*budget), {});
  if (!resolved || resolved->components.size() > 12) return 0;
  const auto plan = planning::make_plan(*resolved);
  if (!plan) return 0;
  if (plan->best_peak > plan->worst().total) __builtin_trap();
  for (const planning::Advice& advice : planning::advice_for(*plan))
    if (advice.saved <= Bytes{}) __builtin_trap();
  return 0;
}
