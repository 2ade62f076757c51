#include "inference/vos/resize.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace headroom::inference::vos {
namespace {

constexpr std::size_t kPixelBlock = 16;

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
      has_inside_(static_cast<std::size_t>(from_height)),
      columns_(taps(from_width, to_width)),
      rows_(taps(from_height, to_height)),
      lines_(std::max<std::size_t>(objects, 1)) {
  for (Lines& lines : lines_)
    for (std::vector<float>* row : {&lines.above, &lines.below, &lines.row}) row->resize(columns_.size());
}

void MaskResizer::widen(std::span<const float> logits, std::int32_t row, Range range,
                        std::vector<float>& out) const {
  const float* from = logits.data() + static_cast<std::ptrdiff_t>(row) * from_width_;
  for (std::size_t x = range.begin; x < range.end; ++x) {
    const Tap& tap = columns_[x];
    out[x] = (1 - tap.weight) * from[tap.first] + tap.weight * from[tap.second];
  }
}

// Masks have more rows than logits, so a row of logits is widened once and serves several rows of the mask.
void MaskResizer::widen_rows(std::span<const float> logits, const Tap& vertical, Range range,
                             Lines& lines) const {
  if (lines.top != vertical.first) {
    if (lines.bottom == vertical.first)
      std::swap(lines.above, lines.below);
    else
      widen(logits, vertical.first, range, lines.above);
    lines.top = vertical.first;
    lines.bottom = -1;
  }
  if (lines.bottom != vertical.second) {
    widen(logits, vertical.second, range, lines.below);
    lines.bottom = vertical.second;
  }
}

// Notes the rows of logits with one above 0, and returns the columns of the mask that such logits reach.
// Between logits that are not above 0, an interpolated one is not either.
MaskResizer::Range MaskResizer::find_inside(std::span<const float> logits) {
  const auto width = static_cast<std::size_t>(from_width_);
  std::size_t left = width, right = 0;
  for (std::size_t y = 0; y < has_inside_.size(); ++y) {
    const float* row = logits.data() + y * width;
    has_inside_[y] = 0;
    for (std::size_t x = 0; x < width; x += kPixelBlock) {
      const std::size_t end = std::min(x + kPixelBlock, width);
      unsigned inside = 0;
      for (std::size_t i = x; i < end; ++i) inside |= row[i] > 0 ? 1U : 0U;
      if (inside == 0) continue;
      has_inside_[y] = 1;
      left = std::min(left, x);
      right = std::max(right, end);
    }
  }
  const auto before = [](std::int32_t Tap::*end, std::size_t place) {
    return [=](const Tap& tap) { return static_cast<std::size_t>(tap.*end) < place; };
  };
  const auto begin = std::ranges::partition_point(columns_, before(&Tap::second, left));
  const auto end = std::ranges::partition_point(columns_, before(&Tap::first, right));
  return {static_cast<std::size_t>(begin - columns_.begin()),
          static_cast<std::size_t>(end - columns_.begin())};
}

void MaskResizer::resize(std::span<const float> logits, BinaryMask& mask) {
  const Range range = find_inside(logits);
  std::ranges::fill(mask.pixels, std::uint8_t{0});
  if (range.begin >= range.end) return;
  Lines& lines = lines_.front();
  lines.top = lines.bottom = -1;
  for (std::size_t y = 0; y < rows_.size(); ++y) {
    const Tap& vertical = rows_[y];
    if (has_inside_[static_cast<std::size_t>(vertical.first)] == 0 &&
        has_inside_[static_cast<std::size_t>(vertical.second)] == 0)
      continue;
    widen_rows(logits, vertical, range, lines);
    const float lower = vertical.weight, upper = 1 - vertical.weight;
    const float *above = lines.above.data(), *below = lines.below.data();
    std::uint8_t* out = mask.pixels.data() + y * columns_.size();
    const auto is_inside = [=](std::size_t x) {
      return static_cast<std::uint8_t>(upper * above[x] + lower * below[x] > 0 ? 1 : 0);
    };
    std::size_t x = range.begin;
    for (; x + kPixelBlock <= range.end;
         x += kPixelBlock) {  // a fixed number of pixels, for vector instructions
      std::array<std::uint8_t, kPixelBlock> block;
      for (std::size_t i = 0; i < kPixelBlock; ++i) block[i] = is_inside(x + i);
      std::ranges::copy(block, out + x);
    }
    for (; x < range.end; ++x) out[x] = is_inside(x);
  }
}

void MaskResizer::resize_without_overlap(std::span<const std::span<const float>> logits,
                                         std::span<BinaryMask* const> masks) {
  const std::size_t width = columns_.size();
  for (Lines& lines : lines_) lines.top = lines.bottom = -1;
  for (std::size_t y = 0; y < rows_.size(); ++y) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (!logits[i].empty()) {
        Lines& lines = lines_[i];
        widen_rows(logits[i], rows_[y], {0, width}, lines);
        const float lower = rows_[y].weight, upper = 1 - rows_[y].weight;
        for (std::size_t x = 0; x < width; ++x)
          lines.row[x] = upper * lines.above[x] + lower * lines.below[x];
      }
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
  return has_inside_.size() + (columns_.size() + rows_.size()) * sizeof(Tap) +
         lines_.size() * 3 * columns_.size() * sizeof(float);
}

}  // namespace headroom::inference::vos
