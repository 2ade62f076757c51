#include "evaluation/object_scorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace headroom::evaluation {
namespace {

constexpr std::size_t kQuarters = 4;

double mean_of(const std::vector<double>& values, std::size_t first, std::size_t last) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(last) + 1;
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

bool is_complete(const BinaryMask& mask) {
  return mask.width > 0 && mask.height > 0 &&
         mask.pixels.size() == static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height);
}

const BinaryMask& empty_mask_like(const BinaryMask& mask, MetricScratch& scratch) {
  scratch.empty.width = mask.width;
  scratch.empty.height = mask.height;
  scratch.empty.pixels.assign(mask.pixels.size(), 0);
  return scratch.empty;
}

}  // namespace

Statistics statistics_of(const std::vector<double>& values) {
  Statistics statistics;
  statistics.mean = mean_of(values, 0, values.size() - 1);
  const auto good = std::ranges::count_if(values, [](double value) { return value > 0.5; });
  statistics.recall = static_cast<double>(good) / static_cast<double>(values.size());
  std::array<std::size_t, kQuarters + 1> bounds{};
  const double step = static_cast<double>(values.size() - 1) / kQuarters;
  for (std::size_t i = 0; i < bounds.size(); ++i)
    bounds[i] = static_cast<std::size_t>(std::nearbyint(1 + step * static_cast<double>(i) + 1e-10)) - 1;
  statistics.decay = mean_of(values, bounds[0], bounds[1]) - mean_of(values, bounds[3], bounds[4]);
  return statistics;
}

Status ObjectScorer::add(const BinaryMask& truth, const BinaryMask* prediction, MetricScratch& scratch) {
  if (!is_complete(truth) || (prediction != nullptr && !is_complete(*prediction)))
    return internal_error("cannot score a frame", "a mask is incomplete");
  if (prediction != nullptr && (prediction->width != truth.width || prediction->height != truth.height))
    return input_error(fmt::format("the prediction has {} x {} pixels, the ground truth {} x {}",
                                   prediction->width, prediction->height, truth.width, truth.height));
  ++added_;
  Frame frame;
  frame.has_truth = has_pixels(truth);
  frame.has_prediction = prediction != nullptr && has_pixels(*prediction);
  frame.is_missing = prediction == nullptr;
  if (added_ == 1) begins_empty_ = !frame.has_truth;
  if (protocol_ == Protocol::reference) {
    if (prediction != nullptr) {
      frame.j = region_similarity(truth, *prediction);
      frame.f = reference_boundary_measure(truth, *prediction, scratch);
    }
    count(frame);
    return {};
  }
  if (added_ == 1) return {};
  const BinaryMask& counted = prediction != nullptr ? *prediction : empty_mask_like(truth, scratch);
  frame.j = region_similarity(truth, counted);
  frame.f = boundary_measure(truth, counted, scratch);
  if (last_) count(*last_);
  last_ = frame;
  return {};
}

void ObjectScorer::count(const Frame& frame) {
  has_truth_ = has_truth_ || frame.has_truth;
  has_begun_ = has_begun_ || frame.has_truth || frame.has_prediction;
  if (protocol_ == Protocol::sav && !has_begun_) return;
  missing_ += frame.is_missing ? 1 : 0;
  j_.push_back(frame.j);
  f_.push_back(frame.f);
}

Result<ObjectScore> ObjectScorer::score() const {
  if (protocol_ == Protocol::reference && begins_empty_) return input_error("its first mask is empty");
  if (protocol_ == Protocol::sav && !has_truth_ && added_ > 2)
    return input_error("the ground truth is empty in all frames that count");
  if (j_.empty())
    return input_error(fmt::format("only {} of its frames {} annotated", added_, added_ == 1 ? "is" : "are"),
                       "the protocol leaves out the first and the last one");
  return ObjectScore{std::ssize(j_), missing_, statistics_of(j_), statistics_of(f_)};
}

}  // namespace headroom::evaluation
