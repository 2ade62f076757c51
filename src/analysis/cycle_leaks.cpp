#include "analysis/cycle_leaks.h"

#include <algorithm>
#include <cmath>

namespace headroom::analysis {
namespace {

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Trend {
  double slope = 0;      // Theil-Sen
  double certainty = 0;  // Mann-Kendall's Z; above 1.645 it grows, with 5 % of error
};

Trend trend_of(std::span<const std::int64_t> x, std::span<const std::int64_t> y) {
  const std::size_t n = x.size();
  std::vector<double> slopes;
  std::int64_t concordant = 0, discordant = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      slopes.push_back((static_cast<double>(y[j]) - static_cast<double>(y[i])) /
                       static_cast<double>(x[j] - x[i]));
      if (y[j] > y[i]) ++concordant;
      if (y[j] < y[i]) ++discordant;
    }
  // Variance of S under "no trend", with runs of equal values taken out (Mann 1945, Kendall 1975).
  const auto term = [](double count) { return count * (count - 1) * (2 * count + 5); };
  std::vector<std::int64_t> sorted(y.begin(), y.end());
  std::sort(sorted.begin(), sorted.end());
  double variance = term(static_cast<double>(n));
  for (std::size_t i = 0; i < n;) {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), sorted[i]) - sorted.begin();
    variance -= term(static_cast<double>(static_cast<std::size_t>(end) - i));
    i = static_cast<std::size_t>(end);
  }
  const auto s = static_cast<double>(concordant - discordant);
  Trend trend{median(slopes), 0};
  if (variance > 0 && s != 0) trend.certainty = (s > 0 ? s - 1 : s + 1) / std::sqrt(variance / 18);
  return trend;
}

bool lies_within(const LayerTree& layers, LayerIndex inner, LayerIndex outer) {
  while (layers[inner].depth > layers[outer].depth) inner = layers[inner].parent;
  return inner == outer;
}

}  // namespace

SeriesGrowth growth_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes,
                       double least_growth) {
  SeriesGrowth result;
  const std::size_t n = cycles.size();
  if (n < static_cast<std::size_t>(kFewestCycles)) return result;
  // A third of the cycles, but always four points stay: fewer cannot be told from chance.
  result.warm_up = std::clamp<std::size_t>(n / 3, 1, n - 4);
  const auto x = cycles.subspan(result.warm_up), y = bytes.subspan(result.warm_up);
  const Trend trend = trend_of(x, y);
  result.per_cycle = trend.slope;

  const std::size_t half = x.size() / 2;
  const Trend late = trend_of(x.subspan(half), y.subspan(half));
  const double grown = trend.slope * static_cast<double>(x.back() - x.front());
  constexpr double kFivePercent = 1.645;
  const bool grows = trend.slope > 0 && trend.certainty > kFivePercent && grown >= least_growth;
  if (grows && late.slope > 0) {
    result.growth = Growth::leak;
    return result;
  }
  // Over all cycles, the warm-up too.
  const auto lowest = std::min(bytes[0], bytes[1]);
  const bool grew =
      static_cast<double>(y.back()) - static_cast<double>(lowest) >= std::max(1.0, least_growth);
  result.growth = grew ? Growth::grew_then_stayed : Growth::none;
  result.per_cycle = 0;
  return result;
}

CycleWatch::Series* CycleWatch::count_cycle(const LayerTree& layers, LayerIndex layer) {
  if (layer >= ends_.size()) ends_.resize(layer + 1);
  const std::int64_t cycles = ++ends_[layer];
  if (cycles == 1) return nullptr;  // a phase, not a cycle, as far as is known
  const auto known =
      std::find_if(series_.begin(), series_.end(), [&](const Series& s) { return s.layer == layer; });
  Series* series = known != series_.end() ? &*known : nullptr;
  if (series == nullptr) {
    series =
        series_.size() < kMostSeries ? &series_.emplace_back() : series_to_replace(layers, layer, cycles);
    if (series == nullptr) return nullptr;
    *series = {};
    series->layer = layer;
    series->depth = layers[layer].depth;
  }
  series->cycles = cycles;
  return cycles % series->stride == 0 ? series : nullptr;
}

// All are in use: which of them is worth less than the cycles of `layer`? Null if none is.
CycleWatch::Series* CycleWatch::series_to_replace(const LayerTree& layers, LayerIndex layer,
                                                  std::int64_t cycles) {
  // The outer layers are the better cycles, and of one depth those that come more often.
  const auto worse = std::max_element(series_.begin(), series_.end(), [](const Series& a, const Series& b) {
    return a.depth != b.depth ? a.depth < b.depth : a.cycles > b.cycles;
  });
  const std::uint32_t depth = layers[layer].depth;
  if (worse->depth > depth || (worse->depth == depth && worse->cycles < cycles)) return &*worse;
  // What repeats often enough is better than a phase that came a few times, unless it is a part of it.
  if (cycles < kFewestEnds) return nullptr;
  const auto phase = std::min_element(series_.begin(), series_.end(),
                                      [](const Series& a, const Series& b) { return a.cycles < b.cycles; });
  return phase->cycles < kFewestEnds && !lies_within(layers, layer, phase->layer) ? &*phase : nullptr;
}

void CycleWatch::thin_out(Series& series) {
  if (series.samples.size() < kMostSamples) return;
  for (std::size_t i = 0; 2 * i + 1 < series.samples.size(); ++i)
    series.samples[i] = std::move(series.samples[2 * i + 1]);
  series.samples.resize(series.samples.size() / 2);
  series.stride *= 2;
}

CycleWatch::Judged CycleWatch::judge(const Series& series, const LayerTree& layers, double noise,
                                     const std::vector<bool>& sampled) {
  Judged judged;
  judged.series = &series;
  LeakVerdict& verdict = judged.verdict;
  verdict.cycle = layers[series.layer].path;
  verdict.cycles = series.cycles;
  std::vector<std::int64_t> bytes;
  for (const Sample& sample : series.samples) {
    verdict.at_cycles.push_back(sample.cycle);
    verdict.live_bytes.push_back(sample.live_bytes);
    bytes.push_back(sample.own_bytes);
  }
  const SeriesGrowth own = growth_of(verdict.at_cycles, bytes, noise);
  const SeriesGrowth total = growth_of(verdict.at_cycles, verdict.live_bytes, noise);
  verdict.growth = total.growth;
  verdict.bytes_per_cycle = total.per_cycle;
  verdict.smallest_visible =
      noise / static_cast<double>(verdict.at_cycles.back() - verdict.at_cycles[total.warm_up]);
  verdict.warm_up_cycles = verdict.at_cycles[total.warm_up] - 1;  // those before the first that counted

  double leaking = 0;
  std::vector<std::size_t> next(series.samples.size());  // of each sample's stacks
  std::uint32_t stacks = 0;
  for (const Sample& sample : series.samples)
    if (!sample.by_stack.empty()) stacks = std::max(stacks, sample.by_stack.back().first + 1);
  for (std::uint32_t stack = 0; stack < stacks; ++stack) {
    for (std::size_t k = 0; k < next.size(); ++k) {
      const auto& held = series.samples[k].by_stack;
      const bool holds = next[k] < held.size() && held[next[k]].first == stack;
      bytes[k] = holds ? held[next[k]++].second : 0;
    }
    if (std::all_of(bytes.begin(), bytes.end(), [&](std::int64_t b) { return b == bytes[0]; })) continue;
    const bool estimated = stack < sampled.size() && sampled[stack];
    const SeriesGrowth growth = growth_of(verdict.at_cycles, bytes, estimated ? noise : 0);
    if (growth.growth == Growth::none) continue;
    verdict.stacks.push_back({StackId{stack}, growth.growth, growth.per_cycle, bytes.front(), bytes.back()});
    if (growth.growth == Growth::leak) leaking += growth.per_cycle;
  }
  // What one stack leaks another may hide by giving back as much, or in samples the noise of the others.
  if (leaking > 0 && verdict.growth != Growth::leak) {
    verdict.growth = Growth::leak;
    verdict.bytes_per_cycle = leaking;
  }
  std::sort(verdict.stacks.begin(), verdict.stacks.end(), [](const StackGrowth& a, const StackGrowth& b) {
    if (a.bytes_per_cycle != b.bytes_per_cycle) return a.bytes_per_cycle > b.bytes_per_cycle;
    return a.last_bytes - a.first_bytes > b.last_bytes - b.first_bytes;
  });
  if (verdict.growth == Growth::leak) {
    const auto cycles = static_cast<double>(verdict.cycles);
    judged.own_growth = own.per_cycle * cycles;
    judged.growth = verdict.bytes_per_cycle * cycles;
  }
  return judged;
}

// Layers that ended often enough and lie in none that was judged; of those within each other the outermost.
std::int64_t CycleWatch::left_out(const LayerTree& layers, const std::vector<const Series*>& judged) const {
  std::vector<bool> covered(ends_.size()), is_around(ends_.size());
  for (const Series* series : judged) {
    covered[series->layer] = true;
    for (LayerIndex outer = layers[series->layer].parent; outer != 0; outer = layers[outer].parent)
      is_around[outer] = true;
  }
  std::int64_t count = 0;
  for (LayerIndex layer = 1; layer < ends_.size(); ++layer) {  // parents come first
    if (covered[layers[layer].parent]) covered[layer] = true;
    if (covered[layer] || is_around[layer] || ends_[layer] < kFewestEnds) continue;
    covered[layer] = true;
    ++count;
  }
  return count;
}

LeakVerdict CycleWatch::verdict(const LayerTree& layers, std::uint64_t sample_period,
                                const std::vector<bool>& sampled) const {
  const auto repeats = [](const Series& series) {
    return series.samples.size() >= static_cast<std::size_t>(kFewestCycles);
  };
  std::vector<const Series*> chosen;
  for (const Series& series : series_) {
    const bool is_part = std::any_of(series_.begin(), series_.end(), [&](const Series& outer) {
      return &outer != &series && repeats(outer) && lies_within(layers, series.layer, outer.layer);
    });
    if (repeats(series) && !is_part) chosen.push_back(&series);
  }
  // An estimate of G bytes from samples every P has an error of about √(G·P): G must be twice that.
  const double noise = 4 * static_cast<double>(sample_period);
  std::vector<Judged> judged;
  for (const Series* series : chosen) judged.push_back(judge(*series, layers, noise, sampled));
  // Of leaks the one that leaves most behind in memory of its own; else the outermost that comes most often.
  std::stable_sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) {
    if (a.verdict.growth != b.verdict.growth) return a.verdict.growth > b.verdict.growth;
    if (a.own_growth != b.own_growth) return a.own_growth > b.own_growth;
    if (a.growth != b.growth) return a.growth > b.growth;
    return a.series->depth != b.series->depth ? a.series->depth < b.series->depth
                                              : a.series->cycles > b.series->cycles;
  });
  LeakVerdict verdict;
  if (!judged.empty()) verdict = std::move(judged.front().verdict);
  const auto leaks_there = [&](const StackGrowth& one) {
    return one.growth != Growth::leak ||
           std::any_of(verdict.stacks.begin(), verdict.stacks.end(), [&](const StackGrowth& other) {
             return other.stack == one.stack && other.growth == Growth::leak;
           });
  };
  for (std::size_t i = 1; i < judged.size(); ++i) {
    LeakVerdict& other = verdict.other_cycles.emplace_back(std::move(judged[i].verdict));
    other.same_places = other.growth == Growth::leak && !other.stacks.empty() &&
                        other.stacks.front().growth == Growth::leak &&
                        std::all_of(other.stacks.begin(), other.stacks.end(), leaks_there);
  }
  verdict.cycles_left_out = left_out(layers, chosen);
  return verdict;
}

}  // namespace headroom::analysis
