// Sequences of model requests; deterministic for a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace headroom::bench {

inline std::vector<std::string> trace_names() {
  return {"uniform", "zipf", "loop", "phases", "bursts", "small_often"};
}

// Each request has the same distribution, independent of the previous ones.
inline bool is_independent(const std::string& trace) {
  return trace == "uniform" || trace == "zipf" || trace == "small_often";
}

// Draws models by Zipf's law; the first in `order` is the most frequent.
class ZipfDraw {
 public:
  ZipfDraw(std::vector<std::size_t> order, double exponent) : order_(std::move(order)) {
    std::vector<double> weights;
    for (std::size_t i = 0; i < order_.size(); ++i)
      weights.push_back(std::pow(static_cast<double>(i + 1), -exponent));
    draw_ = std::discrete_distribution<std::size_t>(weights.begin(), weights.end());
  }
  // With a random order.
  ZipfDraw(std::size_t models, std::mt19937& random) : ZipfDraw(shuffled(models, random), 1.5) {}
  std::size_t operator()(std::mt19937& random) { return order_[draw_(random)]; }

 private:
  static std::vector<std::size_t> shuffled(std::size_t models, std::mt19937& random) {
    std::vector<std::size_t> order(models);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    return order;
  }
  std::vector<std::size_t> order_;
  std::discrete_distribution<std::size_t> draw_;
};

// uniform: all models equally often. zipf: skewed, with a fixed order. loop: one after another, repeatedly.
// phases: skewed, with a new order every 1,000 requests. bursts: skewed, with a burst of `largest` about
// every hundred requests.
inline std::vector<std::size_t> make_trace(const std::string& name, const std::vector<std::size_t>& by_size,
                                           std::size_t requests, unsigned seed) {
  std::mt19937 random(seed);
  const std::size_t models = by_size.size(), largest = by_size.back();
  ZipfDraw draw(models, random);
  if (name == "small_often") draw = ZipfDraw(by_size, 2.0);
  std::uniform_int_distribution<std::size_t> any(0, models - 1);
  std::vector<std::size_t> trace;
  while (trace.size() < requests) {
    const std::size_t i = trace.size();
    if (name == "phases" && i % 1000 == 0 && i > 0) draw = ZipfDraw(models, random);
    if (name == "uniform")
      trace.push_back(any(random));
    else if (name == "loop")
      trace.push_back(i % models);
    else if (name == "bursts" && i % 120 >= 100)
      trace.push_back(any(random) % 3 != 0 ? largest : draw(random));
    else
      trace.push_back(draw(random));
  }
  return trace;
}

}  // namespace headroom::bench
