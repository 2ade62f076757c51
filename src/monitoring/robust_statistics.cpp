#include "monitoring/robust_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace headroom::monitoring {

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

double mann_kendall_certainty(std::span<const double> y, std::span<double> work) {
  std::int64_t s = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = i + 1; j < y.size(); ++j) s += (y[j] > y[i]) - (y[j] < y[i]);
  const auto term = [](double count) { return count * (count - 1) * (2 * count + 5); };
  const auto sorted = work.first(y.size());
  std::copy(y.begin(), y.end(), sorted.begin());
  std::sort(sorted.begin(), sorted.end());
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
