#include "monitoring/series_growth.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

namespace headroom::monitoring {
namespace {

struct Trend {
  double slope = 0;      // Theil-Sen
  double certainty = 0;  // Mann-Kendall's Z; above 1.645 it grows, with 5 % of error
};

Trend trend_of(std::span<const std::int64_t> cycles, std::span<const std::int64_t> bytes) {
  const std::vector<double> x(cycles.begin(), cycles.end()), y(bytes.begin(), bytes.end());
  std::vector<double> work(std::max(pairs_of(x.size()), x.size()));
  return {theil_sen_slope(x, y, work), mann_kendall_certainty(y, work)};
}

// The probability of so many new highs from `first` on, if the values came in random order: point i of n is
// one with probability 1/i (Rényi 1962).
double chance_of_highs(std::span<const std::int64_t> values, std::size_t first) {
  std::int64_t most = *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(first));
  std::size_t highs = 0;
  std::vector<double> chance(values.size() - first + 1);  // [k]: of k highs so far
  chance[0] = 1;
  for (std::size_t i = first; i < values.size(); ++i) {
    if (values[i] > most) ++highs;
    most = std::max(most, values[i]);
    const double of_this = 1 / static_cast<double>(i + 1);
    for (std::size_t k = chance.size() - 1; k > 0; --k) chance[k] += of_this * (chance[k - 1] - chance[k]);
    chance[0] -= of_this * chance[0];
  }
  return std::accumulate(chance.begin() + static_cast<std::ptrdiff_t>(highs), chance.end(), 0.0);
}

// A buffer that keeps its largest size grows once on average in the last two thirds of a run. A leak
// reaches many new highs; and if one odd cycle is above all later ones, many points that nothing later
// falls below. (5 % for both tests together.)
bool grows_again_and_again(std::span<const std::int64_t> bytes, std::size_t warm_up) {
  constexpr double kUnlikely = 0.025;
  if (chance_of_highs(bytes, warm_up) < kUnlikely) return true;
  std::vector<std::int64_t> backwards;
  for (std::size_t i = bytes.size(); i > warm_up; --i)
    backwards.push_back(~bytes[i - 1]);  // the low are high
  return chance_of_highs(backwards, 1) < kUnlikely;
}

// The points from which on all values are above all earlier ones.
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

// The distance of all values from point `last` on to all before point `first`.
std::int64_t gap_of(std::span<const std::int64_t> bytes, std::size_t first, std::size_t last) {
  const auto before = bytes.first(first), after = bytes.subspan(last);
  return *std::ranges::min_element(after) - *std::ranges::max_element(before);
}

std::int64_t largest_fall(std::span<const std::int64_t> bytes) {
  std::int64_t most = bytes[0], fall = 0;
  for (const std::int64_t held : bytes) {
    most = std::max(most, held);
    fall = std::max(fall, most - held);
  }
  return fall;
}

// Whether the steps from the first to the last stand out of noise, which falls again.
bool stand_out(std::span<const std::int64_t> bytes, std::size_t first, std::size_t last,
               double least_growth) {
  return 2 * gap_of(bytes, first, last) >= largest_fall(bytes) &&
         static_cast<double>(bytes.back() - bytes[first - 1]) >= least_growth;
}

// Whether a step at cycle `step` is too late, by the cycle `last`, to be the last one. A container that
// doubles stays the same for half of the run.
bool is_late(std::int64_t step, std::int64_t last) { return 5 * step > 2 * last; }

// Growth in endless steps: from the first eighth of the run on, each step is late by the time of the next,
// and the last one by the end. Returns the point before the first of them.
std::optional<std::size_t> begin_of_stairs(std::span<const std::int64_t> cycles,
                                           const std::vector<std::size_t>& steps) {
  // A runtime grows in its first four cycles.
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
  // Earlier steps are unknown, so this many are enough if the first is early.
  const bool is_whole = steps.size() >= kFewestSteps && 4 * next <= last;
  return is_whole ? std::optional<std::size_t>(0) : std::nullopt;
}

// Whether the last steps are those of a growing container: each is larger than the one before, and the last
// is a good part of all growth (a third if it grows by half). For a cache of 256 entries that fills up it
// is a 256th, and the steps of a buffer that keeps its largest size vary.
bool are_a_containers(std::span<const std::int64_t> bytes, const std::vector<std::size_t>& steps,
                      std::size_t begin) {
  constexpr std::size_t kCompared = 3;
  const std::size_t last = steps.size() - 1;
  for (std::size_t i = last; i > 0 && last - i + 1 < kCompared && steps[i - 1] > begin; --i)
    if (5 * gap_of(bytes, steps[i], steps[i]) < 6 * gap_of(bytes, steps[i - 1], steps[i - 1])) return false;
  return 6 * gap_of(bytes, steps[last], steps[last]) >= bytes.back() - bytes[begin];
}

}  // namespace

// A third, but at least four points stay.
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
  const bool grows = trend.slope > 0 && trend.certainty > kFivePercent && grown >= least_growth &&
                     grows_again_and_again(bytes, result.warm_up);
  const std::vector<std::size_t> steps = steps_of(bytes);
  std::vector<std::size_t> late_steps = steps_of(y);
  std::erase_if(late_steps, [&](std::size_t step) { return !is_late(x[step], x.back()); });
  const bool grew_late =
      !late_steps.empty() && stand_out(y, late_steps.front(), late_steps.back(), least_growth);
  const std::int64_t last_step = grew_late ? x[late_steps.back()] : 0;
  // With growth at few points, the slopes of pairs say little.
  const auto begin = last_step > 0 && 2 * steps.size() < n ? begin_of_stairs(cycles, steps) : std::nullopt;
  if (begin && are_a_containers(bytes, steps, *begin)) {
    result.growth = Growth::leak;
    result.last_step = last_step;
    result.per_cycle = static_cast<double>(bytes.back() - bytes[*begin]) /
                       static_cast<double>(cycles.back() - cycles[*begin]);
    return result;
  }
  if (grows && 4 * late.slope > trend.slope) {
    result.growth = Growth::leak;
    return result;
  }
  result.per_cycle = 0;
  if (last_step > 0) {
    result.growth = Growth::grew_late;
    result.last_step = last_step;
    return result;
  }
  // Over all cycles, with the warm-up.
  const auto lowest = std::min(bytes[0], bytes[1]);
  const bool grew =
      static_cast<double>(y.back()) - static_cast<double>(lowest) >= std::max(1.0, least_growth);
  result.growth = grew ? Growth::grew_then_stayed : Growth::none;
  // A later step that does not stand out leaves the end of growth unknown.
  if (grew && !steps.empty() && !is_late(cycles[steps.back()], cycles.back()))
    result.last_step = cycles[steps.back()];
  return result;
}

double median(std::span<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double theil_sen_slope(std::span<const double> x, std::span<const double> y, std::span<double> work) {
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = i + 1; j < x.size(); ++j) work[pairs++] = (y[j] - y[i]) / (x[j] - x[i]);
  return median(work.first(pairs));
}

std::optional<Slope> slope_with_interval(std::span<const double> x, std::span<const double> y) {
  if (x.size() < static_cast<std::size_t>(kFewestCycles)) return std::nullopt;
  std::vector<double> slopes(pairs_of(x.size()));
  Slope found{theil_sen_slope(x, y, slopes)};
  std::ranges::sort(slopes);
  constexpr double kNormal = 1.959964;  // of 97.5 %
  const auto n = static_cast<double>(x.size()), pairs = static_cast<double>(slopes.size());
  const double spread = kNormal * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto last = static_cast<std::int64_t>(slopes.size()) - 1;
  const auto low = static_cast<std::int64_t>(std::floor((pairs - spread) / 2)) - 1;
  const auto high = static_cast<std::int64_t>(std::ceil((pairs + spread) / 2));
  found.low = slopes[static_cast<std::size_t>(std::clamp<std::int64_t>(low, 0, last))];
  found.high = slopes[static_cast<std::size_t>(std::clamp<std::int64_t>(high, 0, last))];
  return found;
}

double mann_kendall_certainty(std::span<const double> y, std::span<double> work) {
  std::int64_t s = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = i + 1; j < y.size(); ++j) s += (y[j] > y[i]) - (y[j] < y[i]);
  const auto term = [](double count) { return count * (count - 1) * (2 * count + 5); };
  const auto sorted = work.first(y.size());
  std::ranges::copy(y, sorted.begin());
  std::ranges::sort(sorted);
  double variance = term(static_cast<double>(y.size()));
  for (auto run = sorted.begin(); run != sorted.end();) {
    const auto end = std::upper_bound(run, sorted.end(), *run);
    variance -= term(static_cast<double>(end - run));
    run = end;
  }
  if (variance <= 0 || s == 0) return 0;
  return static_cast<double>(s > 0 ? s - 1 : s + 1) / std::sqrt(variance / 18);
}

}  // namespace headroom::monitoring
