#include "media/vos/mask_prompts.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace headroom::media::vos {
namespace {

struct PixelBox {
  int left = 0, top = 0, right = -1, bottom = -1;  // the last two are inside
};

std::optional<PixelBox> pixel_box_of(const BinaryMask& mask) {
  PixelBox box{mask.width, mask.height};
  for (int y = 0; y < mask.height; ++y) {
    const auto row = mask.pixels.begin() + std::ptrdiff_t{y} * mask.width;
    const auto is_inside = [](std::uint8_t pixel) { return pixel != 0; };
    const auto first = std::find_if(row, row + mask.width, is_inside);
    if (first == row + mask.width) continue;
    const auto last = std::find_if(std::make_reverse_iterator(row + mask.width),
                                   std::make_reverse_iterator(row), is_inside);
    box.left = std::min(box.left, static_cast<int>(first - row));
    box.right = std::max(box.right, static_cast<int>(last.base() - row) - 1);
    box.top = std::min(box.top, y);
    box.bottom = y;
  }
  if (box.bottom < 0) return std::nullopt;
  return box;
}

// Squared distances to the nearest 0 of a row of squared distances by column: the lower envelope of
// parabolas.
class RowDistances {
 public:
  explicit RowDistances(std::size_t width) : centres_(width), bounds_(width + 1) {}

  void compute(const std::vector<std::int64_t>& by_column, std::vector<std::int64_t>& distances) {
    const auto width = static_cast<std::int64_t>(by_column.size());
    std::size_t last = 0;
    centres_[0] = 0;
    bounds_[0] = -std::numeric_limits<double>::infinity();
    bounds_[1] = std::numeric_limits<double>::infinity();
    for (std::int64_t x = 1; x < width; ++x) {
      double meeting = meeting_of(by_column, x, centres_[last]);
      while (meeting <= bounds_[last]) meeting = meeting_of(by_column, x, centres_[--last]);
      centres_[++last] = x;
      bounds_[last] = meeting;
      bounds_[last + 1] = std::numeric_limits<double>::infinity();
    }
    std::size_t at = 0;
    for (std::int64_t x = 0; x < width; ++x) {
      while (bounds_[at + 1] < static_cast<double>(x)) ++at;
      const std::int64_t away = x - centres_[at];
      distances[static_cast<std::size_t>(x)] =
          away * away + by_column[static_cast<std::size_t>(centres_[at])];
    }
  }

 private:
  // Where the parabolas of two columns meet.
  static double meeting_of(const std::vector<std::int64_t>& by_column, std::int64_t x, std::int64_t other) {
    const std::int64_t rise = by_column[static_cast<std::size_t>(x)] + x * x -
                              by_column[static_cast<std::size_t>(other)] - other * other;
    return static_cast<double>(rise) / static_cast<double>(2 * (x - other));
  }

  std::vector<std::int64_t> centres_;
  std::vector<double> bounds_;
};

// The distance to the nearest pixel outside, up or down, of each pixel of the box. A column of outside
// pixels is on either side.
std::vector<std::int32_t> column_distances(const BinaryMask& mask, const PixelBox& box) {
  const int columns = box.right - box.left + 3, rows = box.bottom - box.top + 1;
  const auto width = static_cast<std::size_t>(columns), height = static_cast<std::size_t>(rows);
  std::vector<std::int32_t> distances(width * height);
  for (std::size_t y = 0; y < height; ++y) {
    const std::size_t row = (static_cast<std::size_t>(box.top) + y) * static_cast<std::size_t>(mask.width);
    for (std::size_t x = 1; x + 1 < width; ++x) {
      if (mask.pixels[row + static_cast<std::size_t>(box.left) + x - 1] == 0) continue;
      distances[y * width + x] = 1 + (y > 0 ? distances[(y - 1) * width + x] : 0);
    }
  }
  for (std::size_t y = height; y-- > 0;)
    for (std::size_t x = 0; x < width; ++x) {
      auto& here = distances[y * width + x];
      here = std::min(here, 1 + (y + 1 < height ? distances[(y + 1) * width + x] : 0));
    }
  return distances;
}

using Pixel = std::pair<int, int>;  // x, y

// The 4-connected component of the first pixel, row by row.
std::vector<Pixel> first_component(const BinaryMask& mask) {
  const auto first = std::ranges::find_if(mask.pixels, [](std::uint8_t pixel) { return pixel != 0; });
  if (first == mask.pixels.end()) return {};
  const auto start = first - mask.pixels.begin();
  std::vector<std::uint8_t> open = mask.pixels;
  std::vector<Pixel> component;
  const auto take = [&](int x, int y) {
    if (x < 0 || y < 0 || x >= mask.width || y >= mask.height) return;
    auto& pixel = open[static_cast<std::size_t>(y) * static_cast<std::size_t>(mask.width) +
                       static_cast<std::size_t>(x)];
    if (pixel == 0) return;
    pixel = 0;
    component.emplace_back(x, y);
  };
  take(static_cast<int>(start % mask.width), static_cast<int>(start / mask.width));
  for (std::size_t i = 0; i < component.size(); ++i) {
    const auto [x, y] = component[i];
    take(x - 1, y);
    take(x + 1, y);
    take(x, y - 1);
    take(x, y + 1);
  }
  return component;
}

}  // namespace

std::optional<PromptPoint> inner_point(const BinaryMask& mask) {
  const auto box = pixel_box_of(mask);
  if (!box) return std::nullopt;
  const int box_width = box->right - box->left + 3;
  const auto width = static_cast<std::size_t>(box_width);
  const std::vector<std::int32_t> columns = column_distances(mask, *box);
  RowDistances rows(width);
  std::vector<std::int64_t> by_column(width), distances(width);
  std::int64_t farthest = 0;
  PromptPoint point;
  for (int y = box->top; y <= box->bottom; ++y) {
    const std::size_t row = static_cast<std::size_t>(y - box->top) * width;
    for (std::size_t x = 0; x < width; ++x) {
      const std::int64_t away = columns[row + x];
      by_column[x] = away * away;
    }
    rows.compute(by_column, distances);
    const auto best = std::ranges::max_element(distances);
    if (*best <= farthest) continue;
    farthest = *best;
    point.x = static_cast<float>(box->left - 1 + (best - distances.begin()));
    point.y = static_cast<float>(y);
  }
  return point;
}

std::optional<PromptPoint> reference_point(const BinaryMask& mask) {
  const std::vector<Pixel> component = first_component(mask);
  if (component.empty()) return std::nullopt;
  std::int64_t sum_x = 0, sum_y = 0;
  for (const auto& [x, y] : component) {
    sum_x += x;
    sum_y += y;
  }
  const auto count = static_cast<std::int64_t>(component.size());
  return PromptPoint{static_cast<float>(sum_x / count), static_cast<float>(sum_y / count)};
}

std::optional<PromptBox> box_of(const BinaryMask& mask) {
  const auto box = pixel_box_of(mask);
  if (!box) return std::nullopt;
  return PromptBox{static_cast<float>(box->left), static_cast<float>(box->top),
                   static_cast<float>(box->right), static_cast<float>(box->bottom)};
}

std::optional<VosPrompt> prompt_from_mask(const BinaryMask& mask, PromptKind kind, PointRule rule,
                                          std::int64_t frame) {
  VosPrompt prompt{frame};
  if (kind == PromptKind::mask) {
    if (!pixel_box_of(mask)) return std::nullopt;
    prompt.mask = mask;
    return prompt;
  }
  if (kind == PromptKind::box) {
    prompt.box = box_of(mask);
    if (!prompt.box) return std::nullopt;
    return prompt;
  }
  const auto point = rule == PointRule::inside ? inner_point(mask) : reference_point(mask);
  if (!point) return std::nullopt;
  prompt.points.push_back(*point);
  return prompt;
}

}  // namespace headroom::media::vos
