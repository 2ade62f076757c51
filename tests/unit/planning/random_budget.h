// Random small budgets with groups, pipelines, dependencies and shared pages. The sizes have few different
// values, so that ties and exact fits are frequent.
#pragma once

#include <random>

#include "types/budget.h"

namespace headroom::test {

struct RandomKind {
  std::size_t components = 6;
  bool with_groups = true, with_dependencies = true, with_lazy = true, with_pipelines = true;
};

Budget random_budget(std::mt19937& random, const RandomKind& kind);
// named "c0", "c1", …
BudgetComponent component(const std::string& name, std::int64_t load, std::int64_t run);

}  // namespace headroom::test
