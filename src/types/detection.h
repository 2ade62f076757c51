// The findings of a vision model in one frame, in pixels of the original frame. Plain data. Capacity is
// reserved in advance, so decoding a frame in the measured loop allocates nothing.
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

// A rotated quadrilateral (text). Corners run clockwise from the top left.
struct Quad {
  std::array<float, 8> corners{};
  float score = 0;
};

struct LineSegment {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  float score = 0;
};

// A soft mask at the model's resolution, and the rectangle that it covers in pixels of the frame. The
// rectangle may extend beyond the frame.
struct Mask {
  std::int32_t width = 0, height = 0;
  std::vector<std::uint8_t> values;  // 0..255, row by row
  float left = 0, top = 0, right = 0, bottom = 0;
  std::int32_t class_id = 0;
};

// All findings in one frame. clear() keeps the capacity, also that of the masks' values. Get new masks from
// add_mask().
struct FrameFindings {
  std::vector<Detection> detections;
  std::vector<Quad> quads;
  std::vector<LineSegment> lines;
  std::vector<Mask> masks;
  std::vector<Mask> spare_masks;  // cleared masks, for reuse
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
  // Appends a mask. Its `values` are empty, and reuse the memory of an earlier mask if possible.
  Mask& add_mask() {
    if (spare_masks.empty()) return masks.emplace_back();
    std::vector<std::uint8_t> values = std::move(spare_masks.back().values);
    spare_masks.pop_back();
    Mask& mask = masks.emplace_back();
    mask.values = std::move(values);
    return mask;
  }
  // The number behind "detections per frame": boxes (their masks belong to them), or text regions, or lines,
  // or non-empty masks.
  std::int64_t count() const {
    return static_cast<std::int64_t>(detections.size() + quads.size() + lines.size() +
                                     (detections.empty() ? masks.size() : 0));
  }
};

}  // namespace headroom
