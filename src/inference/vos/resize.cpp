#include "inference/vos/resize.h"

#include <algorithm>
#include <cmath>

namespace headroom::inference::vos {
namespace {

// Of one output pixel: its input pixels from `first` on, and their weights.
struct AntialiasTaps {
  int first = 0;
  std::vector<float> weights;
};

// As _compute_indices_weights_aa of PyTorch (aten/src/ATen/native/cpu/UpSampleKernel.cpp), with its order of
// float operations: masks of 0 and 1 often give exactly 0.5, which is the threshold.
std::vector<AntialiasTaps> antialias_taps(int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float support = std::max(scale, 1.0F);
  std::vector<AntialiasTaps> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    const float centre = scale * (static_cast<float>(i) + 0.5F);
    AntialiasTaps& taps = all[static_cast<std::size_t>(i)];
    const float low = centre - support + 0.5F, high = centre + support + 0.5F;
    taps.first = std::max(static_cast<int>(low), 0);
    const int end = std::min(static_cast<int>(high), from);
    float total = 0;
    for (int j = taps.first; j < end; ++j) {
      const float distance = std::abs((static_cast<float>(j) - centre + 0.5F) * (1.0F / support));
      taps.weights.push_back(distance < 1 ? 1 - distance : 0);
      total += taps.weights.back();
    }
    for (float& weight : taps.weights) weight /= total;
  }
  return all;
}

}  // namespace

std::vector<float> resize_antialiased(std::span<const float> from, int from_width, int from_height,
                                      int to_width, int to_height) {
  const auto columns = antialias_taps(from_width, to_width), rows = antialias_taps(from_height, to_height);
  const auto width = static_cast<std::size_t>(to_width);
  std::vector<float> narrow(width * static_cast<std::size_t>(from_height));
  for (int y = 0; y < from_height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      const float* line = from.data() + static_cast<std::ptrdiff_t>(y) * from_width + columns[x].first;
      float sum = 0;
      for (std::size_t j = 0; j < columns[x].weights.size(); ++j) sum += line[j] * columns[x].weights[j];
      narrow[static_cast<std::size_t>(y) * width + x] = sum;
    }
  std::vector<float> result(width * static_cast<std::size_t>(to_height), 0.0F);
  for (std::size_t y = 0; y < rows.size(); ++y)
    for (std::size_t j = 0; j < rows[y].weights.size(); ++j) {
      const float* line = narrow.data() + (static_cast<std::size_t>(rows[y].first) + j) * width;
      for (std::size_t x = 0; x < width; ++x) result[y * width + x] += line[x] * rows[y].weights[j];
    }
  return result;
}

std::vector<MaskResizer::Tap> MaskResizer::taps(int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Tap> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    const float at = std::max((static_cast<float>(i) + 0.5F) * scale - 0.5F, 0.0F);
    const int first = std::min(static_cast<int>(at), from - 1);
    all[static_cast<std::size_t>(i)] = {first, std::min(first + 1, from - 1), at - static_cast<float>(first)};
  }
  return all;
}

MaskResizer::MaskResizer(int from_width, int from_height, int to_width, int to_height, std::size_t objects)
    : from_width_(from_width),
      columns_(taps(from_width, to_width)),
      rows_(taps(from_height, to_height)),
      lines_(std::max<std::size_t>(objects, 1)) {
  for (Lines& lines : lines_)
    for (std::vector<float>* row : {&lines.above, &lines.below, &lines.row}) row->resize(columns_.size());
}

void MaskResizer::widen(std::span<const float> logits, std::int32_t row, std::vector<float>& out) const {
  const float* from = logits.data() + static_cast<std::ptrdiff_t>(row) * from_width_;
  for (std::size_t x = 0; x < columns_.size(); ++x) {
    const Tap& tap = columns_[x];
    out[x] = (1 - tap.weight) * from[tap.first] + tap.weight * from[tap.second];
  }
}

// Masks have more rows than logits, so a row of logits is widened once and serves several rows of the mask.
const std::vector<float>& MaskResizer::interpolate_row(std::span<const float> logits, const Tap& vertical,
                                                       Lines& lines) const {
  if (lines.top != vertical.first) {
    if (lines.bottom == vertical.first)
      std::swap(lines.above, lines.below);
    else
      widen(logits, vertical.first, lines.above);
    lines.top = vertical.first;
    lines.bottom = -1;
  }
  if (lines.bottom != vertical.second) {
    widen(logits, vertical.second, lines.below);
    lines.bottom = vertical.second;
  }
  const float lower = vertical.weight, upper = 1 - vertical.weight;
  for (std::size_t x = 0; x < columns_.size(); ++x)
    lines.row[x] = upper * lines.above[x] + lower * lines.below[x];
  return lines.row;
}

void MaskResizer::resize(std::span<const float> logits, BinaryMask& mask) {
  std::uint8_t* out = mask.pixels.data();
  Lines& lines = lines_.front();
  lines.top = lines.bottom = -1;
  for (const Tap& vertical : rows_) {
    const std::vector<float>& row = interpolate_row(logits, vertical, lines);
    out = std::transform(row.begin(), row.end(), out,
                         [](float logit) { return static_cast<std::uint8_t>(logit > 0 ? 1 : 0); });
  }
}

void MaskResizer::resize_without_overlap(std::span<const std::span<const float>> logits,
                                         std::span<BinaryMask* const> masks) {
  const std::size_t width = columns_.size();
  for (Lines& lines : lines_) lines.top = lines.bottom = -1;
  for (std::size_t y = 0; y < rows_.size(); ++y) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (!logits[i].empty()) interpolate_row(logits[i], rows_[y], lines_[i]);
    for (std::size_t x = 0; x < width; ++x) {
      std::size_t highest = logits.size();
      float best = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        masks[i]->pixels[y * width + x] = 0;
        if (logits[i].empty() || !(lines_[i].row[x] > best)) continue;
        best = lines_[i].row[x];
        highest = i;
      }
      if (highest < logits.size()) masks[highest]->pixels[y * width + x] = 1;
    }
  }
}

std::size_t MaskResizer::bytes() const {
  return (columns_.size() + rows_.size()) * sizeof(Tap) + lines_.size() * 3 * columns_.size() * sizeof(float);
}

}  // namespace headroom::inference::vos
