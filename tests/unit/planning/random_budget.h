// Small budgets by chance, with groups, pipelines, dependencies and pages in common: few figures, so that
// ties and exact fits are common.
#pragma once

#include <random>

#include "model/budget.h"

namespace headroom::test {

struct RandomKind {
  std::size_t components = 6;
  bool with_groups = true, with_dependencies = true, with_lazy = true, with_pipelines = true;
};

Budget random_budget(std::mt19937& random, const RandomKind& kind);
// name "c0", "c1", …
BudgetComponent component(const std::string& name, std::int64_t load, std::int64_t run);

}  // namespace headroom::test
