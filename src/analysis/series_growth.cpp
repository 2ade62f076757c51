#include "analysis/series_growth.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

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

// The points at which `bytes` grew for good: all from there on lie above all before.
std::vector<std::size_t> steps_of(std::span<const std::int64_t> bytes) {
  std::vector<std::int64_t> least_after(bytes.begin(), bytes.end());
  for (std::size_t i = bytes.size() - 1; i > 0; --i)
    least_after[i - 1] = std::min(least_after[i - 1], least_after[i]);
  std::vector<std::size_t> steps;
  std::int64_t most = bytes[0];
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (least_after[i] > most) steps.push_back(i);
    most = std::max(most, bytes[i]);
  }
  return steps;
}

std::int64_t range_of(std::span<const std::int64_t> bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  return *most - *least;
}

// Does what is live after point `step` stand out of what comes and goes? Noise has its steps, too.
bool stands_out(std::span<const std::int64_t> bytes, std::size_t step, double least_growth) {
  const auto before = bytes.first(step), after = bytes.subspan(step);
  const std::int64_t gap =
      *std::min_element(after.begin(), after.end()) - *std::max_element(before.begin(), before.end());
  return 2 * gap >= std::max(range_of(before), range_of(after)) &&
         static_cast<double>(bytes.back() - before.back()) >= least_growth;
}

// Is a step at cycle `step` too late, by the cycle `last`, to be the last one? Nothing has grown since in
// less than three fifths of the run. A container that doubles keeps still for half of it.
bool is_late(std::int64_t step, std::int64_t last) { return 5 * step > 2 * last; }

// What grows on and on in steps: from the first eighth of the run on each step is late by the time of the
// next, and the last one by the end. The point before the first of these steps; nothing if it is not so.
std::optional<std::size_t> begin_of_stairs(std::span<const std::int64_t> cycles,
                                           const std::vector<std::size_t>& steps) {
  // In fewer cycles what a runtime does in its first four would do.
  constexpr std::int64_t kFewest = 16;
  constexpr std::size_t kFewestSteps = 3;
  const std::int64_t last = cycles.back();
  if (last < kFewest) return std::nullopt;
  std::int64_t next = last;
  for (std::size_t i = steps.size(); i > 0; --i) {
    const std::int64_t step = cycles[steps[i - 1]];
    if (!is_late(step, next)) return std::nullopt;
    if (8 * step <= last) return steps[i - 1] - 1;
    next = step;
  }
  // What was before the first point is not known: so many steps, the first of them early, will do.
  const bool is_whole = steps.size() >= kFewestSteps && 4 * next <= last;
  return is_whole ? std::optional<std::size_t>(0) : std::nullopt;
}

// Is the last step one of a container that doubles, or the last of a cache that fills up with ever rarer
// keys? A container that grows by half has a third of its growth in its last step, a cache of 256 entries a
// 256th.
bool is_large_step(std::span<const std::int64_t> bytes, std::size_t step, std::size_t begin) {
  const std::int64_t gap =
      *std::min_element(bytes.begin() + static_cast<std::ptrdiff_t>(step), bytes.end()) -
      *std::max_element(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(step));
  return 6 * gap >= bytes.back() - bytes[begin];
}

}  // namespace

// A third, but four points stay, as fewer cannot be told from chance.
std::size_t warm_up_of(std::size_t n) { return std::clamp<std::size_t>(n / 3, 1, n - 4); }

SeriesGrowth growth_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes,
                       double least_growth) {
  SeriesGrowth result;
  const std::size_t n = cycles.size();
  if (n < static_cast<std::size_t>(kFewestCycles)) return result;
  result.warm_up = warm_up_of(n);
  const auto x = cycles.subspan(result.warm_up), y = bytes.subspan(result.warm_up);
  const Trend trend = trend_of(x, y);
  result.per_cycle = trend.slope;

  const std::size_t half = x.size() / 2;
  const Trend late = trend_of(x.subspan(half), y.subspan(half));
  const double grown = trend.slope * static_cast<double>(x.back() - x.front());
  constexpr double kFivePercent = 1.645;
  const bool grows = trend.slope > 0 && trend.certainty > kFivePercent && grown >= least_growth;
  const std::vector<std::size_t> steps = steps_of(bytes);
  std::int64_t last_step = 0;  // that is late
  for (const std::size_t step : steps_of(y))
    if (is_late(x[step], x.back()) && stands_out(y, step, least_growth)) last_step = x[step];
  // Of what grows at few of the points the slopes of pairs tell little.
  const auto begin = last_step > 0 && 2 * steps.size() < n ? begin_of_stairs(cycles, steps) : std::nullopt;
  if (begin && is_large_step(bytes, steps.back(), *begin)) {
    result.growth = Growth::leak;
    result.last_step = last_step;
    result.per_cycle = static_cast<double>(bytes.back() - bytes[*begin]) /
                       static_cast<double>(cycles.back() - cycles[*begin]);
    return result;
  }
  if (grows && late.slope > 0) {
    result.growth = Growth::leak;
    return result;
  }
  result.per_cycle = 0;
  if (last_step > 0) {
    result.growth = Growth::grew_late;
    result.last_step = last_step;
    return result;
  }
  // Over all cycles, the warm-up too.
  const auto lowest = std::min(bytes[0], bytes[1]);
  const bool grew =
      static_cast<double>(y.back()) - static_cast<double>(lowest) >= std::max(1.0, least_growth);
  result.growth = grew ? Growth::grew_then_stayed : Growth::none;
  if (grew)
    for (const std::size_t step : steps)
      if (!is_late(cycles[step], cycles.back())) result.last_step = cycles[step];
  return result;
}

}  // namespace headroom::analysis
