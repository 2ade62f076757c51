// The figures and words of a report in the form that people read, the same in every view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/bench_result.h"

namespace headroom::report {

inline constexpr std::string_view kAbsent = "–";  // not measured; never to be mistaken for zero

// The rows that a table or a page shows of a longer list.
template <class T>
std::span<const T> first_of(const std::vector<T>& list, std::size_t most) {
  return std::span(list).first(std::min(most, list.size()));
}

std::string words_for(const std::optional<Bytes>& bytes);             // "39.4 MiB"
std::string words_for(const std::optional<Nanoseconds>& time);        // "14.20 ms"
std::string words_for_rate(const std::optional<double>& per_second);  // "69.8"
std::string words_for_share(double share);                            // 0.336 → "33.6 %"
// 20123456 → "20,123,456".
std::string grouped(std::int64_t count);
// "17 models", "1 model".
std::string counted(std::int64_t count, std::string_view noun);

// "tensors in the arena at its peak in the profiled runs, after Slice_35"; with the node if it is known.
std::string words_for(const MemoryShare& share, const std::string& peak_node);

std::string_view words_for(ModelStatus status);        // "out of memory"
std::string_view words_for(LimitMechanism mechanism);  // "control group v2 (memory.max)"
// A worker marks a completed phase. Words for its next activity: "while loading the model".
std::string_view activity_after(Phase phase);

// A metric of the machine, by its name with unit: "clock_hz.cpu0", 1.4976e9 → "CPU clock cpu0", "1.50 GHz".
std::string title_of_metric(std::string_view name);
std::string words_for_metric(std::string_view name, double value);
// Events over the whole run, for metrics that count events (swapped pages, refaults, OOM kills). Their mean
// per sample would depend on the interval.
std::optional<std::int64_t> total_of(const MetricSummary& metric);

// A percentile that n is too small to bound is marked: "14.20 ms" → "14.20 ms*".
inline constexpr std::string_view kUnboundedMark = "*";
inline constexpr std::string_view kUnboundedFootnote =
    "Too few frames for a 99 % confidence bound (P90 needs 64 frames, P99 662): docs/figures.md";
// 5.375 → "5.4", 0.5 → "0.5", 0.04 → "0.04".
std::string words_for_average(double count);

// The larger of load peak and run peak, resident.
std::optional<Bytes> peak_of(const ModelResult& model);
// True if the model was above the limit in a sample, even if it completed.
bool exceeded_limit(const ModelResult& model);

// Indices of the items whose figure is above zero, the largest first, equal ones in the order of the list; at
// most `most`.
template <class Item, class Figure>
std::vector<std::size_t> ranked(const std::vector<Item>& items, Figure figure, std::size_t most) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (figure(items[i]) > 0) order.push_back(i);
  const std::size_t count = std::min(order.size(), most);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const auto left = figure(items[a]), right = figure(items[b]);
                      return left != right ? left > right : a < b;
                    });
  order.resize(count);
  return order;
}

// Indices of the items that lead in a ranking by any of the figures, ascending.
template <class Item, class... Figures>
std::vector<std::size_t> ranked_by_any(const std::vector<Item>& items, std::size_t most, Figures... figures) {
  std::set<std::size_t> chosen;
  for (const std::vector<std::size_t>& order : {ranked(items, figures, most)...})
    chosen.insert(order.begin(), order.end());
  return {chosen.begin(), chosen.end()};
}

}  // namespace headroom::report
