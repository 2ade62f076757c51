// The cost of a sample of this machine, in CPU time and allocations: all system sources, and the process
// table.
#include <benchmark/benchmark.h>

#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "support/counting_new.h"

namespace {

using namespace headroom;

void count_allocations(benchmark::State& state, std::int64_t before) {
  state.counters["allocations"] = benchmark::Counter(static_cast<double>(test::allocations_so_far() - before),
                                                     benchmark::Counter::kAvgIterations);
}

void system_sources(benchmark::State& state) {
  sources::SystemSampler sampler;
  SystemSample sample;
  for (int i = 0; i < 10; ++i) sampler.sample_into(sample);
  const std::int64_t before = test::allocations_so_far();
  for (auto _ : state) sampler.sample_into(sample);
  count_allocations(state, before);
}
BENCHMARK(system_sources);

// With details for 20 processes, as a screen shows them.
void process_table(benchmark::State& state) {
  sources::ProcessTable table;
  SystemSample sample;
  sources::ProcessChoice choice;
  choice.largest = 20;
  choice.with_pss = state.range(0) == 1;
  for (int i = 0; i < 10; ++i) table.read(sample, choice);
  const std::int64_t before = test::allocations_so_far();
  for (auto _ : state) table.read(sample, choice);
  count_allocations(state, before);
  state.counters["processes"] = static_cast<double>(table.count());
}
BENCHMARK(process_table)->ArgName("pss")->Arg(0)->Arg(1);

}  // namespace

BENCHMARK_MAIN();
