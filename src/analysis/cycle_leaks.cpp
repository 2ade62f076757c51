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

CycleWatch::Series* CycleWatch::count_cycle(LayerIndex layer, std::uint32_t depth) {
  if (layer >= ends_.size()) ends_.resize(layer + 1);
  const std::int64_t cycles = ++ends_[layer];
  if (cycles == 1) return nullptr;  // a phase, not a cycle, as far as is known
  auto it = std::find_if(series_.begin(), series_.end(), [&](const Series& s) { return s.layer == layer; });
  if (it == series_.end()) {
    if (series_.size() < kMostSeries) {
      it = series_.emplace(series_.end());
    } else {
      // The outer layers are the better cycles, and of one depth those that come more often.
      it = std::max_element(series_.begin(), series_.end(), [](const Series& a, const Series& b) {
        return a.depth != b.depth ? a.depth < b.depth : a.cycles > b.cycles;
      });
      if (it->depth < depth || (it->depth == depth && it->cycles >= cycles)) return nullptr;
      *it = {};
    }
    it->layer = layer;
    it->depth = depth;
  }
  it->cycles = cycles;
  return cycles % it->stride == 0 ? &*it : nullptr;
}

void CycleWatch::thin_out(Series& series) {
  if (series.samples.size() < kMostSamples) return;
  for (std::size_t i = 0; 2 * i + 1 < series.samples.size(); ++i)
    series.samples[i] = std::move(series.samples[2 * i + 1]);
  series.samples.resize(series.samples.size() / 2);
  series.stride *= 2;
}

LeakVerdict CycleWatch::verdict(const LayerTree& layers, std::uint64_t sample_period,
                                const std::vector<bool>& sampled) const {
  LeakVerdict verdict;
  const Series* chosen = nullptr;
  for (const Series& series : series_)
    if (series.samples.size() >= static_cast<std::size_t>(kFewestCycles) &&
        (chosen == nullptr || series.depth < chosen->depth ||
         (series.depth == chosen->depth && series.cycles > chosen->cycles)))
      chosen = &series;
  if (chosen == nullptr) return verdict;

  verdict.cycle = layers[chosen->layer].path;
  verdict.cycles = chosen->cycles;
  for (const Sample& sample : chosen->samples) {
    verdict.at_cycles.push_back(sample.cycle);
    verdict.live_bytes.push_back(sample.live_bytes);
  }
  // An estimate of G bytes from samples every P has an error of about √(G·P): G must be twice that.
  const double noise = 4 * static_cast<double>(sample_period);
  const SeriesGrowth total = growth_of(verdict.at_cycles, verdict.live_bytes, noise);
  verdict.growth = total.growth;
  verdict.bytes_per_cycle = total.per_cycle;
  verdict.smallest_visible =
      noise / static_cast<double>(verdict.at_cycles.back() - verdict.at_cycles[total.warm_up]);
  verdict.warm_up_cycles = verdict.at_cycles[total.warm_up] - 1;  // those before the first that counted

  std::vector<std::int64_t> bytes(chosen->samples.size());
  for (std::size_t stack = 0; stack < chosen->samples.back().by_stack.size(); ++stack) {
    std::size_t k = 0;
    for (const Sample& sample : chosen->samples)
      bytes[k++] = stack < sample.by_stack.size() ? sample.by_stack[stack] : 0;
    if (std::all_of(bytes.begin(), bytes.end(), [&](std::int64_t b) { return b == bytes[0]; })) continue;
    const bool estimated = stack < sampled.size() && sampled[stack];
    const SeriesGrowth growth = growth_of(verdict.at_cycles, bytes, estimated ? noise : 0);
    if (growth.growth == Growth::none) continue;
    verdict.stacks.push_back({StackId{static_cast<std::uint32_t>(stack)}, growth.growth, growth.per_cycle,
                              bytes.front(), bytes.back()});
    // What one stack leaks another may hide by giving back as much.
    if (growth.growth == Growth::leak) verdict.growth = Growth::leak;
  }
  std::sort(verdict.stacks.begin(), verdict.stacks.end(), [](const StackGrowth& a, const StackGrowth& b) {
    if (a.bytes_per_cycle != b.bytes_per_cycle) return a.bytes_per_cycle > b.bytes_per_cycle;
    return a.last_bytes - a.first_bytes > b.last_bytes - b.first_bytes;
  });
  return verdict;
}

}  // namespace headroom::analysis
