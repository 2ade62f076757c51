// Random small budgets with groups, pipelines, dependencies and shared pages. The sizes have few different
// values, so that ties and exact fits are frequent.
#pragma once

#include <fmt/format.h>

#include <random>

#include "types/budget.h"

namespace headroom::test {

struct RandomKind {
  std::size_t components = 6;
  bool with_groups = true, with_dependencies = true, with_lazy = true, with_pipelines = true;
};

// Named "c0", "c1", …
inline BudgetComponent component(const std::string& name, std::int64_t load, std::int64_t run) {
  BudgetComponent made;
  made.name = name;
  made.need.load_peak = Bytes{load};
  made.need.run_mean = made.need.run_peak = Bytes{run};
  return made;
}

inline Budget random_budget(std::mt19937& random, const RandomKind& kind) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Budget budget;
  budget.name = "random.toml";
  for (std::size_t i = 0; i < kind.components; ++i) {
    BudgetComponent made = component(fmt::format("c{}", i), below(12), below(8));
    if (kind.with_groups && below(3) == 0) made.group = fmt::format("g{}", below(2));
    if (kind.with_lazy && below(6) == 0) made.is_lazy = true;
    if (kind.with_pipelines && below(3) == 0) {
      made.need.transient = {below(5)};
      if (below(2) == 0) made.pipeline = fmt::format("p{}", below(2));
    }
    if (below(3) == 0) {
      made.need.shared_key = fmt::format("s{}", below(2));
      made.need.shared = {below(4)};
    }
    // Depend only on earlier components, so there is no cycle, and not on lazy ones.
    for (std::size_t before = 0; kind.with_dependencies && before < i; ++before)
      if (below(5) == 0 && !budget.components[before].is_lazy && !made.is_lazy)
        (below(2) == 0 || (!made.group.empty() && made.group == budget.components[before].group) ? made.after
                                                                                                 : made.needs)
            .push_back(budget.components[before].name);
    made.value = below(6);
    made.is_required = below(8) == 0;
    budget.components.push_back(std::move(made));
  }
  budget.device.total = {20 + below(20)};
  budget.rules.buffer = {below(5)};
  return budget;
}

}  // namespace headroom::test
