// The geometry of DB text detection: from a probability map to rotated rectangles.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::inference {

struct Point {
  float x = 0, y = 0;
};

// A rotated rectangle; `along` is the unit vector along its width.
struct RotatedRectangle {
  Point centre, along{1, 0};
  float width = 0, height = 0;
  float short_side() const { return width < height ? width : height; }
  // Moves each side outwards by `distance`.
  RotatedRectangle grown(float distance) const;
  // Clockwise from the top left, in PaddleOCR's order.
  std::array<Point, 4> corners() const;
};

// Computes the convex hull of points that are sorted by row, then column. `hull` is counter-clockwise in
// mathematical axes.
void convex_hull(std::span<const Point> points, std::vector<Point>& hull);
// The smallest rectangle around a convex polygon. One of its sides lies on a side of the polygon.
RotatedRectangle smallest_rectangle(std::span<const Point> hull);
// The mean of a map's pixels inside a rectangle; 0 if there are none.
float mean_inside(const float* map, int width, int height, const RotatedRectangle& rectangle);

// Finds the connected regions (eight neighbours) of a map above a threshold, as runs of pixels. One pass
// over the map finds the runs and joins touching runs with union-find. The constructor reserves the
// memory.
class RegionFinder {
 public:
  RegionFinder(int width, int height);
  // Returns the number of regions.
  std::size_t find(const float* map, float threshold);
  // The end points of a region's runs, sorted by row, then column. Their hull is the region's hull. The
  // span is valid until the next call.
  std::span<const Point> outline(std::size_t region);

 private:
  static constexpr std::int32_t kNone = -1;
  struct Run {
    std::int32_t row, first, last;
    std::int32_t parent;  // union-find; a region's root is its first run
    std::int32_t next;    // next run of the same region
  };
  std::int32_t root(std::int32_t run);
  void join(std::int32_t a, std::int32_t b);
  void add_row(const float* values, int row, float threshold);
  void join_rows(std::int32_t above, std::int32_t above_end, std::int32_t below_end);

  int width_, height_;
  std::vector<Run> runs_;
  std::vector<std::int32_t> first_runs_, last_runs_;  // of each region; last_runs_ is indexed by root run
  std::vector<Point> outline_;
};

}  // namespace headroom::inference
