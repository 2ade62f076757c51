#include "media/pictures/canvas.h"

#include <agg_conv_stroke.h>
#include <agg_ellipse.h>
#include <agg_gsv_text.h>
#include <agg_renderer_scanline.h>

#include <algorithm>
#include <cmath>

namespace headroom::media {
namespace {

constexpr float kFarOutside = 30000;
constexpr double kMaskOpacity = 0.5;
constexpr double kTextWeight = 0.13;  // thickness of a letter's lines, as a share of its height

agg::rgba8 agg_color(Color color) { return {color.red, color.green, color.blue}; }

int nearest_pixel(float coordinate) {
  return static_cast<int>(
      std::lround(std::isfinite(coordinate) ? std::clamp(coordinate, -kFarOutside, kFarOutside) : 0.0F));
}

// The font has ASCII only. Each other character of UTF-8 becomes one question mark.
std::string ascii_of(const std::string& text) {
  std::string ascii;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 && byte < 0xC0) continue;  // a character's further bytes
    ascii += byte >= 0x20 && byte < 0x7F ? c : '?';
  }
  return ascii;
}

// Samples between the mask's values at even distances (bilinear).
class MaskAxis {
 public:
  MaskAxis(int values, int pixels) : values_(values), step_(static_cast<double>(values) / pixels) {}
  struct Position {
    std::size_t first, second;
    double weight;  // of the second
  };
  Position at(int pixel) const {
    const double position = std::clamp((pixel + 0.5) * step_ - 0.5, 0.0, static_cast<double>(values_ - 1));
    const int first = static_cast<int>(position);
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(first + 1, values_ - 1)),
            position - first};
  }

 private:
  int values_;
  double step_;
};

double between(double first, double second, double weight) { return first + (second - first) * weight; }

}  // namespace

Point pixel_at(float x, float y) { return {nearest_pixel(x), nearest_pixel(y)}; }

Canvas::Canvas(const Picture& picture)
    : picture_(picture),
      buffer_(picture_.bgr.data(), static_cast<unsigned>(picture.width),
              static_cast<unsigned>(picture.height), picture.width * 3),
      pixels_(buffer_),
      renderer_(pixels_) {
  rasterizer_.clip_box(0, 0, picture.width, picture.height);
  const double side = std::sqrt(static_cast<double>(picture.width) * picture.height);
  thickness_ = std::max(1, static_cast<int>(std::lround(side / 280)));
  text_height_ = std::max(7.5, side / 60);
  text_thickness_ = std::max(1.1, text_height_ * kTextWeight);
}

template <class Shape>
void Canvas::fill(Shape& shape, Color color) {
  rasterizer_.reset();
  double x = 0, y = 0;
  shape.rewind(0);
  for (unsigned command = shape.vertex(&x, &y); !agg::is_stop(command); command = shape.vertex(&x, &y))
    rasterizer_.add_vertex(x, y, command);
  agg::render_scanlines_aa_solid(rasterizer_, scanline_, renderer_, agg_color(color));
}

void Canvas::fill_box(int left, int top, int width, int height, Color color) {
  renderer_.copy_bar(left, top, left + width - 1, top + height - 1, agg_color(color));
}

void Canvas::outline(std::span<const Point> corners, Color color) {
  agg::path_storage path;
  // A pixel's centre is half a pixel from its corner.
  for (const Point& corner : corners) {
    if (path.total_vertices() == 0)
      path.move_to(corner.x + 0.5, corner.y + 0.5);
    else
      path.line_to(corner.x + 0.5, corner.y + 0.5);
  }
  if (corners.size() > 2) path.close_polygon();
  agg::conv_stroke<agg::path_storage> stroke(path);
  stroke.width(thickness_ + 1);
  stroke.line_cap(agg::round_cap);
  fill(stroke, color);
}

void Canvas::dot(Point centre, Color color) {
  agg::ellipse circle(centre.x + 0.5, centre.y + 0.5, thickness_ + 1.5, thickness_ + 1.5);
  fill(circle, color);
}

void Canvas::blend(const Mask& mask, Color color) {
  const auto size =
      static_cast<std::size_t>(std::max(0, mask.width)) * static_cast<std::size_t>(std::max(0, mask.height));
  const Point first = pixel_at(std::min(mask.left, mask.right), std::min(mask.top, mask.bottom));
  const Point last = pixel_at(std::max(mask.left, mask.right), std::max(mask.top, mask.bottom));
  if (size == 0 || mask.values.size() < size || first.x >= last.x || first.y >= last.y) return;
  const MaskAxis across(mask.width, last.x - first.x), down(mask.height, last.y - first.y);
  const auto stride = static_cast<std::size_t>(mask.width);
  const int right = std::min(last.x, picture_.width), bottom = std::min(last.y, picture_.height);
  for (int y = std::max(first.y, 0); y < bottom; ++y) {
    const MaskAxis::Position row = down.at(y - first.y);
    const std::uint8_t* upper = mask.values.data() + row.first * stride;
    const std::uint8_t* lower = mask.values.data() + row.second * stride;
    for (int x = std::max(first.x, 0); x < right; ++x) {
      const MaskAxis::Position column = across.at(x - first.x);
      const double value =
          between(between(upper[column.first], upper[column.second], column.weight),
                  between(lower[column.first], lower[column.second], column.weight), row.weight);
      std::uint8_t* pixel = buffer_.row_ptr(y) + 3 * std::ptrdiff_t{x};
      const double weight = kMaskOpacity * value / 255;
      const std::uint8_t mixed[] = {color.blue, color.green, color.red};
      for (int c = 0; c < 3; ++c)
        pixel[c] = static_cast<std::uint8_t>(std::lround(between(pixel[c], mixed[c], weight)));
    }
  }
}

void Canvas::label(const std::string& words, Point corner, Color color) {
  agg::gsv_text text;
  text.size(text_height_);
  text.flip(true);  // y points down
  const std::string ascii = ascii_of(words);
  text.text(ascii.c_str());
  const int margin = std::max(2, static_cast<int>(std::lround(text_height_ / 3)));
  const int width = static_cast<int>(std::ceil(text.text_width() + text_thickness_)) + 2 * margin;
  const int height = static_cast<int>(std::ceil(text_height_)) + 2 * margin;
  const int left = std::clamp(corner.x - thickness_ / 2, 0, std::max(0, picture_.width - width));
  const int top = std::clamp(corner.y - height, 0, std::max(0, picture_.height - height));
  fill_box(left, top, width, height, color);

  text.start_point(left + margin + text_thickness_ / 2, top + margin + text_height_);
  agg::conv_stroke<agg::gsv_text> stroke(text);
  stroke.width(text_thickness_);
  stroke.line_join(agg::round_join);
  stroke.line_cap(agg::round_cap);
  const double brightness = 0.114 * color.blue + 0.587 * color.green + 0.299 * color.red;
  fill(stroke, brightness > 140 ? Color{0, 0, 0} : Color{255, 255, 255});
}

}  // namespace headroom::media
