#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "media/pictures/canvas.h"
#include "media/pictures/decoders.h"
#include "media/pictures/picture_engine.h"

namespace headroom::media {
namespace {

constexpr int kJpegQuality = 88;  // no visible artefacts around thin lines; a third of the size at quality 95

// The strong colours of Tableau 20 and a few bright ones (blue, green, red), ordered so that neighbours
// differ.
constexpr std::array<Color, 12> kColors{{{14, 127, 255},
                                         {180, 119, 31},
                                         {44, 160, 44},
                                         {40, 39, 214},
                                         {189, 103, 148},
                                         {207, 190, 23},
                                         {194, 119, 227},
                                         {34, 189, 188},
                                         {75, 86, 140},
                                         {255, 87, 34},
                                         {0, 215, 255},
                                         {127, 255, 0}}};

Color color_of(std::int64_t index) {
  const auto count = static_cast<std::int64_t>(kColors.size());
  return kColors[static_cast<std::size_t>(((index % count) + count) % count)];
}

void draw(Canvas& canvas, const Detection& detection) {
  const Color color = color_of(detection.class_id);
  const std::array corners{pixel_at(detection.left, detection.top), pixel_at(detection.right, detection.top),
                           pixel_at(detection.right, detection.bottom),
                           pixel_at(detection.left, detection.bottom)};
  canvas.outline(corners, color);
  const int count = std::clamp(detection.landmark_count, 0, static_cast<int>(detection.landmarks.size()) / 2);
  for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(count); i += 2)
    canvas.dot(pixel_at(detection.landmarks[i], detection.landmarks[i + 1]), color);
}

void draw(Canvas& canvas, const Quad& quad) {
  std::array<Point, 4> corners;
  for (std::size_t i = 0; i < corners.size(); ++i)
    corners[i] = pixel_at(quad.corners[2 * i], quad.corners[2 * i + 1]);
  canvas.outline(corners, color_of(0));
}

void draw(Canvas& canvas, const LineSegment& line) {
  const std::array ends{pixel_at(line.x0, line.y0), pixel_at(line.x1, line.y1)};
  canvas.outline(ends, color_of(0));
  for (const Point& end : ends) canvas.dot(end, color_of(0));
}

std::string label_of(const Detection& detection, const std::vector<std::string>& class_names) {
  const auto id = static_cast<std::size_t>(detection.class_id);
  if (detection.class_id >= 0 && id < class_names.size() && !class_names[id].empty())
    return fmt::format("{} {:.2f}", class_names[id], detection.score);
  return fmt::format("class {} {:.2f}", detection.class_id, detection.score);
}

}  // namespace

Status PictureEngine::write_annotated(const Picture& picture, const FrameFindings& findings,
                                      const std::vector<std::string>& class_names, const std::string& path) {
  const PictureSize size{picture.width, picture.height};
  if (picture.width <= 0 || picture.height <= 0 || picture.bgr.size() < size.bytes())
    return internal_error(fmt::format("cannot draw {}", path), "the frame has no pixels");
  Canvas canvas(picture);
  // Draw masks first, then lines, then labels. Tasks return detections best first.
  for (std::size_t i = 0; i < findings.masks.size(); ++i)
    canvas.blend(findings.masks[i], color_of(static_cast<std::int64_t>(i)));
  for (const LineSegment& line : findings.lines) draw(canvas, line);
  for (const Quad& quad : findings.quads) draw(canvas, quad);
  for (const Detection& detection : findings.detections) draw(canvas, detection);
  // Best last, so that its label is on top where labels overlap.
  for (auto found = findings.detections.rbegin(); found != findings.detections.rend(); ++found)
    canvas.label(label_of(*found, class_names), pixel_at(found->left, found->top), color_of(found->class_id));
  auto jpeg = encode_jpeg(canvas.picture().bgr.data(), size, kJpegQuality);
  if (!jpeg) return failure(fmt::format("cannot draw {}", path), jpeg.error().what);
  return write_file_atomically(path, *jpeg);
}

}  // namespace headroom::media
