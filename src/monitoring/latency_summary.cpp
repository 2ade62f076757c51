#include "monitoring/latency_summary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace headroom::monitoring {
namespace {

constexpr double kBoundConfidence = 0.99;
constexpr std::size_t kSortedAtOnce = 16'384;  // 128 KiB

// Buckets of equal width on a logarithmic axis. Without positive values there is no histogram.
class LogHistogram {
 public:
  LogHistogram(std::int64_t smallest, std::int64_t largest) {
    if (smallest <= 0) return;
    counts_.resize(kHistogramBuckets, 0);
    low_ = std::log(static_cast<double>(smallest));
    width_ = std::log(static_cast<double>(largest)) - low_;
  }
  void add(std::int64_t value) {
    if (counts_.empty()) return;
    const double share = width_ > 0 ? (std::log(static_cast<double>(value)) - low_) / width_ : 0;
    const auto bucket = static_cast<std::size_t>(std::max(0.0, share * kHistogramBuckets));
    ++counts_[std::min(bucket, counts_.size() - 1)];  // the largest value closes the last bucket
  }
  std::vector<std::int64_t> take() { return std::move(counts_); }

 private:
  std::vector<std::int64_t> counts_;
  double low_ = 0, width_ = 0;
};

// Finds sorted[rank] in passes over unsorted values: each pass counts the values in bins, and the next one
// looks into the bin with the rank. Ranges of 4 s take three passes, all 64 bits six.
class RankSearch {
 public:
  RankSearch(std::size_t rank, std::int64_t smallest, std::int64_t largest)
      : rank_(rank), low_(smallest), high_(largest) {}
  bool done() const { return low_ == high_; }
  std::int64_t value() const { return low_; }
  void begin_pass() {
    counts_.assign(kBins, 0);
    shift_ = static_cast<int>(std::bit_width(distance(high_) / kBins));
  }
  void add(std::int64_t value) {
    if (value >= low_ && value <= high_) ++counts_[distance(value) >> shift_];
  }
  void end_pass() {
    std::size_t bin = 0;
    for (; bin + 1 < kBins && rank_ >= counts_[bin]; ++bin) rank_ -= counts_[bin];
    low_ += static_cast<std::int64_t>(bin << shift_);
    const std::uint64_t last = (std::uint64_t{1} << shift_) - 1;
    high_ = distance(high_) > last ? low_ + static_cast<std::int64_t>(last) : high_;
  }

 private:
  static constexpr std::size_t kBins = 4096;
  std::uint64_t distance(std::int64_t value) const {
    return static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(low_);
  }
  std::size_t rank_;  // among the values from low_ on
  std::int64_t low_, high_;
  int shift_ = 0;
  std::vector<std::uint64_t> counts_;
};

std::optional<Nanoseconds> bound_of(std::span<const std::int64_t> sorted, double p) {
  const auto index = percentile_bound_index(sorted.size(), p, kBoundConfidence);
  return index ? std::optional(Nanoseconds{sorted[*index]}) : std::nullopt;
}

// Uses distances from the smallest value: sums of squares of the values would cancel (a spread of 1 µs
// around 1 s leaves no digit of it in 53 bits).
void set_moments(LatencySummary& summary, std::int64_t n, std::int64_t smallest, double mean_distance,
                 double square_sum) {
  summary.n = n;
  summary.mean_ns = static_cast<double>(smallest) + mean_distance;
  summary.sd_ns = n > 1 ? std::sqrt(square_sum / static_cast<double>(n - 1)) : 0;
  summary.cv = summary.mean_ns > 0 ? summary.sd_ns / summary.mean_ns : 0;
}

struct Extent {
  std::size_t n = 0;
  std::int64_t smallest = 0, largest = 0;
};

// For more values than are sorted at once.
LatencySummary summarise_large(const ValuePieces& values, const Extent& extent) {
  const auto search_of = [&](std::size_t index) {
    return RankSearch(index, extent.smallest, extent.largest);
  };
  const auto rank = [&](double p) { return search_of(nearest_rank_index(extent.n, p)); };
  // At this many values every bound exists.
  const auto bound = [&](double p) {
    return search_of(*percentile_bound_index(extent.n, p, kBoundConfidence));
  };
  RankSearch p50 = rank(0.50), p90 = rank(0.90), p99 = rank(0.99);
  RankSearch p90_bound = bound(0.90), p99_bound = bound(0.99);
  LogHistogram histogram(extent.smallest, extent.largest);
  double distance_sum = 0, square_sum = 0, mean_distance = 0;
  std::vector<RankSearch*> searches{&p50, &p90, &p99, &p90_bound, &p99_bound};
  std::erase_if(searches, [](const RankSearch* search) { return search->done(); });
  for (int pass = 0; pass < 2 || !searches.empty(); ++pass) {
    for (RankSearch* search : searches) search->begin_pass();
    values([&](std::span<const std::int64_t> piece) {
      for (RankSearch* search : searches)
        for (const std::int64_t value : piece) search->add(value);
      for (const std::int64_t value : piece) {
        const auto distance = static_cast<double>(value - extent.smallest);
        if (pass == 0) {
          distance_sum += distance;
          histogram.add(value);
        } else if (pass == 1) {
          square_sum += (distance - mean_distance) * (distance - mean_distance);
        }
      }
    });
    if (pass == 0) mean_distance = distance_sum / static_cast<double>(extent.n);
    for (RankSearch* search : searches) search->end_pass();
    std::erase_if(searches, [](const RankSearch* search) { return search->done(); });
  }
  LatencySummary summary;
  set_moments(summary, static_cast<std::int64_t>(extent.n), extent.smallest, mean_distance, square_sum);
  summary.min = {extent.smallest};
  summary.p50 = {p50.value()};
  summary.p90 = {p90.value()};
  summary.p99 = {p99.value()};
  summary.max = {extent.largest};
  summary.p90_bound = {p90_bound.value()};
  summary.p99_bound = {p99_bound.value()};
  summary.histogram = histogram.take();
  return summary;
}

}  // namespace

std::size_t nearest_rank_index(std::size_t n, double p) {
  // 0.07 × 100 is 7.000000000000001 in binary.
  constexpr double kRoundingError = 1e-14;
  const double rank = std::ceil(p * static_cast<double>(n) * (1 - kRoundingError));
  return std::min(static_cast<std::size_t>(std::max(rank, 1.0)), n) - 1;
}

std::int64_t nearest_rank(std::span<const std::int64_t> sorted, double p) {
  return sorted[nearest_rank_index(sorted.size(), p)];
}

// Each sample is over the true percentile with probability 1 − p. If P(at most t of n are over) ≤ 1 −
// confidence, then a value with only t samples at or over it is not below the percentile. The largest such
// t gives the tightest bound, sorted[n − t]. LoadGen demands t ≥ 1, so n ≥ 64 for P90 and n ≥ 662 for P99
// at 99 %.
std::optional<std::size_t> percentile_bound_index(std::size_t count, double p, double confidence) {
  const double n = static_cast<double>(count);
  const double odds = std::log((1 - p) / p);
  double log_term = n * std::log(p);  // of P(X = k), in logarithms: 0.9^n underflows from n = 7,000 on
  double tail = std::exp(log_term);
  std::size_t over = 0;
  while (over + 1 < count) {
    const double k = static_cast<double>(over);
    log_term += std::log((n - k) / (k + 1)) + odds;
    const double next_tail = tail + std::exp(log_term);
    if (next_tail > 1 - confidence) break;
    tail = next_tail;
    ++over;
  }
  if (over == 0) return std::nullopt;
  return count - over;
}

LatencySummary summarise_latency(std::vector<std::int64_t> sorted) {
  LatencySummary summary;
  if (sorted.empty()) return summary;
  std::ranges::sort(sorted);

  const double n = static_cast<double>(sorted.size());
  double distance_sum = 0;
  for (const std::int64_t value : sorted) distance_sum += static_cast<double>(value - sorted.front());
  const double mean_distance = distance_sum / n;
  double square_sum = 0;
  for (const std::int64_t value : sorted) {
    const double deviation = static_cast<double>(value - sorted.front()) - mean_distance;
    square_sum += deviation * deviation;
  }

  set_moments(summary, static_cast<std::int64_t>(sorted.size()), sorted.front(), mean_distance, square_sum);
  summary.min = {sorted.front()};
  summary.p50 = {nearest_rank(sorted, 0.50)};
  summary.p90 = {nearest_rank(sorted, 0.90)};
  summary.p99 = {nearest_rank(sorted, 0.99)};
  summary.max = {sorted.back()};
  summary.p90_bound = bound_of(sorted, 0.90);
  summary.p99_bound = bound_of(sorted, 0.99);
  LogHistogram histogram(sorted.front(), sorted.back());
  for (const std::int64_t value : sorted) histogram.add(value);
  summary.histogram = histogram.take();
  return summary;
}

LatencySummary summarise_latency_in_passes(const ValuePieces& nanoseconds) {
  Extent extent;
  std::vector<std::int64_t> kept;  // all of them, as long as they are few
  nanoseconds([&](std::span<const std::int64_t> piece) {
    for (const std::int64_t value : piece) {
      extent.smallest = extent.n == 0 ? value : std::min(extent.smallest, value);
      extent.largest = extent.n == 0 ? value : std::max(extent.largest, value);
      ++extent.n;
      if (extent.n <= kSortedAtOnce) kept.push_back(value);
    }
  });
  if (extent.n <= kSortedAtOnce) return summarise_latency(std::move(kept));
  kept = {};
  return summarise_large(nanoseconds, extent);
}

CountSummary summarise_counts(const ValuePieces& counts) {
  CountSummary summary;
  double sum = 0;
  counts([&](std::span<const std::int64_t> piece) {
    for (const std::int64_t count : piece) {
      summary.min = summary.n == 0 ? count : std::min(summary.min, count);
      summary.max = summary.n == 0 ? count : std::max(summary.max, count);
      sum += static_cast<double>(count);
      ++summary.n;
    }
  });
  if (summary.n > 0) summary.mean = sum / static_cast<double>(summary.n);
  return summary;
}

}  // namespace headroom::monitoring
