#include "model_pool_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>

#include "model_pool_optimum.h"
#include "model_pool_traces.h"

namespace headroom::bench {
namespace {

// One row: loading seconds relative to LRU, one value per seed.
struct SimulatedRow {
  std::vector<double> lru, cost, by_lru, least_by_lru, blind_by_lru, all_by_lru;
  double lru_wait = 0, cost_wait = 0;

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  static std::string median_or_dash(const std::vector<double>& values) {
    return values.empty() ? "–" : fmt::format("{:.3f}", median(values));
  }
};

std::vector<double> shares(const std::vector<std::size_t>& trace, std::size_t models) {
  std::vector<double> share(models);
  for (const std::size_t model : trace) share[model] += 1 / static_cast<double>(trace.size());
  return share;
}

// Random sizes and load times, log-normal (σ = 1) and independent. In real models they are not independent.
std::vector<SimulatedModel> made_up_models(std::size_t count, std::mt19937& random) {
  std::lognormal_distribution<double> draw(0, 1);
  std::vector<SimulatedModel> models;
  for (std::size_t m = 0; m < count; ++m) {
    const Bytes size = mebibytes(static_cast<std::int64_t>(1 + 20 * draw(random)));
    models.push_back({{static_cast<std::int64_t>(50e6 * draw(random))}, {5'000'000}, size, size});
  }
  std::stable_sort(models.begin(), models.end(),
                   [](const auto& a, const auto& b) { return a.run_peak < b.run_peak; });
  return models;
}

}  // namespace

void print_simulated_runs(const SimulatedRuns& run) {
  Bytes total;
  for (const SimulatedModel& model : run.models) total += model.run_peak;
  fmt::print("{} models, {} in all, budget {}, {} threads\n", run.models.size(), format_bytes(total),
             format_bytes(run.budget), run.threads);
  const bool has_optimum = run.threads == 1 && run.models.size() <= AvailableMemory::kMostModels;
  fmt::print(
      "| trace | LRU s | pool s | ratio of medians | median ratio | worst of 9 seeds | "
      "least possible, median ratio | least without knowing when | until all are served, median ratio | "
      "longest wait s, LRU | pool |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const std::string& name : trace_names()) {
    SimulatedRow row;
    for (unsigned seed = 1; seed <= 9; ++seed) {
      const auto trace = make_trace(name, run.order, run.requests, seed);
      const auto by = [&](pool::Eviction eviction) {
        return simulate_pool(run.models, trace, run.budget, run.margin, run.baseline, run.threads, eviction,
                             eviction == pool::Eviction::by_cost ? run.load_delay : Nanoseconds{});
      };
      const Simulated of_lru = by(pool::Eviction::least_recently_used), of_cost = by(pool::Eviction::by_cost);
      const double lru = of_lru.reload_seconds;
      row.lru.push_back(lru);
      row.cost.push_back(of_cost.reload_seconds);
      row.by_lru.push_back(of_cost.reload_seconds / lru);
      row.all_by_lru.push_back(of_cost.all_seconds / of_lru.all_seconds);
      row.lru_wait = std::max(row.lru_wait, of_lru.longest_wait);
      row.cost_wait = std::max(row.cost_wait, of_cost.longest_wait);
      if (!has_optimum) continue;
      const AvailableMemory available{run.budget - run.margin - run.baseline};
      row.least_by_lru.push_back(least_reload_seconds(run.models, trace, available) / lru);
      if (!is_independent(name)) continue;
      row.blind_by_lru.push_back(
          least_seconds_a_request(run.models, shares(trace, run.models.size()), available) *
          static_cast<double>(trace.size()) / lru);
    }
    const double lru = SimulatedRow::median(row.lru), cost = SimulatedRow::median(row.cost);
    fmt::print("| {} | {:.1f} | {:.1f} | {:.3f} | {:.3f} | {:.3f} | {} | {} | {:.3f} | {:.1f} | {:.1f} |\n",
               name, lru, cost, cost / lru, SimulatedRow::median(row.by_lru),
               *std::max_element(row.by_lru.begin(), row.by_lru.end()),
               SimulatedRow::median_or_dash(row.least_by_lru), SimulatedRow::median_or_dash(row.blind_by_lru),
               SimulatedRow::median(row.all_by_lru), row.lru_wait, row.cost_wait);
    std::fflush(stdout);
  }
}

void print_made_up_sets(std::size_t requests, int threads) {
  fmt::print("{} threads, {} requests; loading seconds relative to LRU\n", threads, requests);
  fmt::print(
      "| budget | trace | sets | mean ratio | best | worst | more than 5 % worse "
      "|\n|---|---|--:|--:|--:|--:|--:|\n");
  for (const double part : {1.5, 2.0, 4.0})
    for (const std::string& name : trace_names()) {
      std::mt19937 random(1);
      std::vector<double> ratios;
      for (unsigned set = 0; set < 48; ++set) {
        const auto models = made_up_models(std::vector<std::size_t>{5, 8, 12, 20}[set % 4], random);
        std::vector<std::size_t> order(models.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        Bytes total;
        for (const SimulatedModel& model : models) total += model.run_peak;
        // Each model fits alone.
        const Bytes budget =
            std::max(Bytes{static_cast<std::int64_t>(static_cast<double>(total.count) / part)},
                     models.back().run_peak);
        const auto trace = make_trace(name, order, requests, set + 1);
        const auto seconds = [&](pool::Eviction eviction) {
          return simulate_pool(models, trace, budget, {}, {}, threads, eviction).reload_seconds;
        };
        const double lru = seconds(pool::Eviction::least_recently_used);
        ratios.push_back(lru > 0 ? seconds(pool::Eviction::by_cost) / lru : 1);
      }
      std::sort(ratios.begin(), ratios.end());
      const auto bad = std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio > 1.05; });
      fmt::print("| 1/{} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", part, name, ratios.size(),
                 std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size()),
                 ratios.front(), ratios.back(), bad);
      std::fflush(stdout);
    }
}

}  // namespace headroom::bench
