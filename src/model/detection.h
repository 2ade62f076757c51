// What a vision model says about one frame, in pixels of the original frame. Plain data with fixed capacity
// reserved up front: decoding a frame in the measured loop allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

struct Detection {
  float left = 0, top = 0, right = 0, bottom = 0;
  float score = 0;
  std::int32_t class_id = 0;
  // Landmarks of face detectors (x, y pairs), if any.
  std::array<float, 12> landmarks{};
  std::int32_t landmark_count = 0;
};

// A rotated quadrilateral (text) with corners clockwise from the top left.
struct Quad {
  std::array<float, 8> corners{};
  float score = 0;
};

struct LineSegment {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  float score = 0;
};

// A soft mask at the model's resolution, and the rectangle in pixels of the frame that it covers; it may
// reach beyond the frame.
struct Mask {
  std::int32_t width = 0, height = 0;
  std::vector<std::uint8_t> values;  // 0..255, row by row
  float left = 0, top = 0, right = 0, bottom = 0;
  std::int32_t class_id = 0;
};

// Everything found in one frame. clear() keeps the capacity, that of the masks' values too: masks come from
// add_mask().
struct FrameFindings {
  std::vector<Detection> detections;
  std::vector<Quad> quads;
  std::vector<LineSegment> lines;
  std::vector<Mask> masks;
  std::vector<Mask> spare_masks;  // cleared ones
  void clear() {
    detections.clear();
    quads.clear();
    lines.clear();
    for (Mask& mask : masks) {
      mask.values.clear();
      spare_masks.push_back(std::move(mask));
    }
    masks.clear();
  }
  // A new last mask; its `values` are empty, with the memory of an earlier mask if there is one.
  Mask& add_mask() {
    if (spare_masks.empty()) return masks.emplace_back();
    std::vector<std::uint8_t> values = std::move(spare_masks.back().values);
    spare_masks.pop_back();
    Mask& mask = masks.emplace_back();
    mask.values = std::move(values);
    return mask;
  }
  // What "detections per frame" counts: boxes (their masks belong to them), or text regions, or lines, or
  // masks that are not empty.
  std::int64_t count() const {
    return static_cast<std::int64_t>(detections.size() + quads.size() + lines.size() +
                                     (detections.empty() ? masks.size() : 0));
  }
};

}  // namespace headroom
