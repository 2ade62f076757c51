// Draws on a picture with AGG: anti-aliased outlines, dots, soft masks and labels.
#pragma once

#include <agg_path_storage.h>
#include <agg_pixfmt_rgb.h>
#include <agg_rasterizer_scanline_aa.h>
#include <agg_renderer_base.h>
#include <agg_rendering_buffer.h>
#include <agg_scanline_u.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "media/media_engine.h"

namespace headroom::media {

struct Point {
  int x = 0, y = 0;
};

struct Color {
  std::uint8_t blue = 0, green = 0, red = 0;
};

// The pixel nearest to a position. A position far outside the frame, or one that is no number, becomes one
// that AGG can clip.
Point pixel_at(float x, float y);

class Canvas {
 public:
  // Line thickness and text size grow with the frame: 2 pixels and 9 pixels at 640 × 480.
  explicit Canvas(const Picture& picture);
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  const Picture& picture() const { return picture_; }

  void outline(std::span<const Point> corners, Color color);  // closed, or a line between two points
  void dot(Point centre, Color color);
  void blend(const Mask& mask, Color color);
  // Draws text on a filled background, above the corner but always inside the frame; black or white text,
  // whichever is more readable.
  void label(const std::string& text, Point corner, Color color);

 private:
  template <class Shape>
  void fill(Shape& shape, Color color);
  void fill_box(int left, int top, int width, int height, Color color);

  Picture picture_;
  agg::rendering_buffer buffer_;
  agg::pixfmt_bgr24 pixels_;
  agg::renderer_base<agg::pixfmt_bgr24> renderer_;
  agg::rasterizer_scanline_aa<> rasterizer_;
  agg::scanline_u8 scanline_;
  int thickness_ = 1;
  double text_height_ = 0, text_thickness_ = 1;
};

}  // namespace headroom::media
