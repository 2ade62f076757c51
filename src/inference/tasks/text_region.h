// From a probability map to rotated rectangles: the geometry of DB text detection.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::inference {

struct Point {
  float x = 0, y = 0;
};

// A rectangle of any rotation: `along` is the unit vector of its width.
struct RotatedRectangle {
  Point centre, along{1, 0};
  float width = 0, height = 0;
  float short_side() const { return width < height ? width : height; }
  // Each side moved outwards.
  RotatedRectangle grown(float distance) const;
  // Clockwise from the top left, as PaddleOCR orders them.
  std::array<Point, 4> corners() const;
};

// The convex hull of points that are sorted by row, then column; into `hull`, counter-clockwise in
// mathematical axes.
void convex_hull(std::span<const Point> points, std::vector<Point>& hull);
// The smallest rectangle around a convex polygon: one of its sides lies on a side of the polygon.
RotatedRectangle smallest_rectangle(std::span<const Point> hull);
// The mean of a map at the pixels inside a rectangle; 0 if there are none.
float mean_inside(const float* map, int width, int height, const RotatedRectangle& rectangle);

// Connected regions (eight neighbours) of a map above a threshold, as runs of pixels: one walk finds the runs
// and joins those that touch with union-find. Memory is taken once, for the worst map of the size.
class RegionFinder {
 public:
  RegionFinder(int width, int height);
  // Returns the number of regions.
  std::size_t find(const float* map, float threshold);
  // The ends of the runs of one region, sorted by row, then column: the hull of these is the region's. The
  // span is valid until the next call.
  std::span<const Point> outline(std::size_t region);

 private:
  static constexpr std::int32_t kNone = -1;
  struct Run {
    std::int32_t row, first, last;
    std::int32_t parent;  // union-find; the root of a region is its first run
    std::int32_t next;    // of the same region
  };
  std::int32_t root(std::int32_t run);
  void join(std::int32_t a, std::int32_t b);
  void add_row(const float* values, int row, float threshold);
  void join_rows(std::int32_t above, std::int32_t above_end, std::int32_t below_end);

  int width_, height_;
  std::vector<Run> runs_;
  std::vector<std::int32_t> first_runs_, last_runs_;  // of each region; `last` is indexed by root run
  std::vector<Point> outline_;
};

}  // namespace headroom::inference
