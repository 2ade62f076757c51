#include "inference/tasks/text_region.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headroom::inference {
namespace {

float cross(Point origin, Point a, Point b) {
  return (a.x - origin.x) * (b.y - origin.y) - (a.y - origin.y) * (b.x - origin.x);
}

// One half of Andrew's monotone chain: removes the points that would make a right turn, down to index
// `base`.
void extend(std::vector<Point>& hull, std::size_t base, Point point) {
  while (hull.size() >= base + 2 && cross(hull[hull.size() - 2], hull.back(), point) <= 0) hull.pop_back();
  hull.push_back(point);
}

}  // namespace

RotatedRectangle RotatedRectangle::grown(float distance) const {
  RotatedRectangle result = *this;
  result.width += 2 * distance;
  result.height += 2 * distance;
  return result;
}

std::array<Point, 4> RotatedRectangle::corners() const {
  const Point half_along{along.x * width / 2, along.y * width / 2};
  const Point half_across{-along.y * height / 2, along.x * height / 2};
  std::array<Point, 4> points;
  for (std::size_t i = 0; i < 4; ++i) {
    const float a = i == 0 || i == 3 ? -1.0F : 1.0F;
    const float b = i < 2 ? -1.0F : 1.0F;
    points[i] = {centre.x + a * half_along.x + b * half_across.x,
                 centre.y + a * half_along.y + b * half_across.y};
  }
  std::ranges::sort(points, [](Point a, Point b) { return a.x < b.x; });
  if (points[0].y > points[1].y) std::swap(points[0], points[1]);
  if (points[2].y > points[3].y) std::swap(points[2], points[3]);
  return {points[0], points[2], points[3], points[1]};
}

void convex_hull(std::span<const Point> points, std::vector<Point>& hull) {
  hull.clear();
  for (const Point point : points) extend(hull, 0, point);
  const std::size_t base = hull.empty() ? 0 : hull.size() - 1;
  for (std::size_t i = points.size(); i-- > 0;) extend(hull, base, points[i]);
  if (hull.size() > 1) hull.pop_back();  // the first point, repeated
}

RotatedRectangle smallest_rectangle(std::span<const Point> hull) {
  RotatedRectangle best;
  float best_area = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < hull.size(); ++i) {
    const Point from = hull[i];
    const Point to = hull[(i + 1) % hull.size()];
    const float length = std::hypot(to.x - from.x, to.y - from.y);
    const Point along = length > 0 ? Point{(to.x - from.x) / length, (to.y - from.y) / length} : Point{1, 0};
    float low = 0, high = 0, near = 0, far = 0;  // extents along and across the side, relative to `from`
    for (const Point point : hull) {
      const Point d{point.x - from.x, point.y - from.y};
      const float a = d.x * along.x + d.y * along.y;
      const float b = d.y * along.x - d.x * along.y;
      low = std::min(low, a);
      high = std::max(high, a);
      near = std::min(near, b);
      far = std::max(far, b);
    }
    const float area = (high - low) * (far - near);
    if (area >= best_area) continue;
    best_area = area;
    const float a = (low + high) / 2;
    const float b = (near + far) / 2;
    best = {{from.x + a * along.x - b * along.y, from.y + a * along.y + b * along.x},
            along,
            high - low,
            far - near};
  }
  return best;
}

float mean_inside(const float* map, int width, int height, const RotatedRectangle& rectangle) {
  const auto corners = rectangle.corners();
  const auto x_range = std::ranges::minmax(corners, {}, &Point::x);
  const auto y_range = std::ranges::minmax(corners, {}, &Point::y);
  const int first_x = std::clamp(static_cast<int>(std::floor(x_range.min.x)), 0, width - 1);
  const int last_x = std::clamp(static_cast<int>(std::ceil(x_range.max.x)), 0, width - 1);
  const int first_y = std::clamp(static_cast<int>(std::floor(y_range.min.y)), 0, height - 1);
  const int last_y = std::clamp(static_cast<int>(std::ceil(y_range.max.y)), 0, height - 1);
  constexpr float kEdge = 1e-3F;  // pixels on the edge belong to the rectangle
  const float half_width = rectangle.width / 2 + kEdge;
  const float half_height = rectangle.height / 2 + kEdge;
  double sum = 0;
  std::int64_t n = 0;
  for (int y = first_y; y <= last_y; ++y) {
    for (int x = first_x; x <= last_x; ++x) {
      const float dx = static_cast<float>(x) - rectangle.centre.x;
      const float dy = static_cast<float>(y) - rectangle.centre.y;
      if (std::abs(dx * rectangle.along.x + dy * rectangle.along.y) > half_width ||
          std::abs(dy * rectangle.along.x - dx * rectangle.along.y) > half_height)
        continue;
      sum += static_cast<double>(map[std::ptrdiff_t{y} * width + x]);
      ++n;
    }
  }
  return n == 0 ? 0 : static_cast<float>(sum / static_cast<double>(n));
}

RegionFinder::RegionFinder(int width, int height) : width_(width), height_(height) {
  // Reserve one run per 32 pixels, more than any page of text needs. A worse map (at worst, every second
  // pixel is a run) makes the vectors grow. Don't reserve more: RLIMIT_DATA counts reserved address space.
  const auto most = static_cast<std::size_t>(height) * (static_cast<std::size_t>(width) / 32 + 1);
  runs_.reserve(most);
  first_runs_.reserve(most);
  last_runs_.reserve(most);
  outline_.reserve(2 * most);
}

std::int32_t RegionFinder::root(std::int32_t run) {
  auto at = [this](std::int32_t i) -> Run& { return runs_[static_cast<std::size_t>(i)]; };
  while (at(run).parent != run) run = at(run).parent = at(at(run).parent).parent;  // path halving
  return run;
}

void RegionFinder::join(std::int32_t a, std::int32_t b) {
  a = root(a);
  b = root(b);
  // The earlier run becomes the root, so that a scan meets a region's root first.
  if (a < b) runs_[static_cast<std::size_t>(b)].parent = a;
  if (b < a) runs_[static_cast<std::size_t>(a)].parent = b;
}

void RegionFinder::add_row(const float* values, int row, float threshold) {
  for (int x = 0; x < width_; ++x) {
    if (!(values[x] > threshold)) continue;
    const int first = x;
    while (x + 1 < width_ && values[x + 1] > threshold) ++x;
    runs_.push_back({row, first, x, static_cast<std::int32_t>(runs_.size()), kNone});
  }
}

// Joins touching runs of two neighbouring rows, including diagonal contact.
void RegionFinder::join_rows(std::int32_t above, std::int32_t above_end, std::int32_t below_end) {
  std::int32_t below = above_end;
  while (above < above_end && below < below_end) {
    const Run& a = runs_[static_cast<std::size_t>(above)];
    const Run& b = runs_[static_cast<std::size_t>(below)];
    if (a.first <= b.last + 1 && b.first <= a.last + 1) join(above, below);
    if (a.last < b.last)
      ++above;
    else
      ++below;
  }
}

std::size_t RegionFinder::find(const float* map, float threshold) {
  runs_.clear();
  first_runs_.clear();
  std::int32_t above = 0;
  for (int y = 0; y < height_; ++y) {
    const auto row_start = static_cast<std::int32_t>(runs_.size());
    add_row(map + std::ptrdiff_t{y} * width_, y, threshold);
    join_rows(above, row_start, static_cast<std::int32_t>(runs_.size()));
    above = row_start;
  }
  last_runs_.assign(runs_.size(), kNone);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(runs_.size()); ++i) {
    const std::int32_t first = root(i);
    std::int32_t& last = last_runs_[static_cast<std::size_t>(first)];
    if (last == kNone)
      first_runs_.push_back(first);
    else
      runs_[static_cast<std::size_t>(last)].next = i;
    last = i;
  }
  return first_runs_.size();
}

std::span<const Point> RegionFinder::outline(std::size_t region) {
  outline_.clear();
  for (std::int32_t i = first_runs_[region]; i != kNone; i = runs_[static_cast<std::size_t>(i)].next) {
    const Run& run = runs_[static_cast<std::size_t>(i)];
    outline_.push_back({static_cast<float>(run.first), static_cast<float>(run.row)});
    if (run.last != run.first)
      outline_.push_back({static_cast<float>(run.last), static_cast<float>(run.row)});
  }
  return outline_;
}

}  // namespace headroom::inference
