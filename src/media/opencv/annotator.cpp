#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "base/files.h"
#include "media/image_header.h"
#include "media/opencv/opencv_engine.h"

namespace headroom::media {
namespace {

constexpr int kJpegQuality = 88;  // no visible artefacts around thin lines; a third of the size at quality 95
constexpr double kMaskOpacity = 0.5;
// OpenCV clips shapes outside the frame only if their coordinates stay within its fixed-point range.
constexpr float kFarOutside = 30000;

// The strong colours of Tableau 20 and a few bright ones (blue, green, red), ordered so that neighbours
// differ.
const std::array<cv::Scalar, 12> kColors{
    cv::Scalar(14, 127, 255), {180, 119, 31}, {44, 160, 44}, {40, 39, 214}, {189, 103, 148}, {207, 190, 23},
    {194, 119, 227},          {34, 189, 188}, {75, 86, 140}, {255, 87, 34}, {0, 215, 255},   {127, 255, 0}};

const cv::Scalar& color_of(std::int64_t index) {
  const auto count = static_cast<std::int64_t>(kColors.size());
  return kColors[static_cast<std::size_t>(((index % count) + count) % count)];
}

float limited(float coordinate) {
  return std::isfinite(coordinate) ? std::clamp(coordinate, -kFarOutside, kFarOutside) : 0;
}
cv::Point point(float x, float y) { return {cvRound(limited(x)), cvRound(limited(y))}; }

class Canvas {
 public:
  explicit Canvas(const Picture& picture) {
    cv::Mat(picture.height, picture.width, CV_8UC3, const_cast<std::uint8_t*>(picture.bgr.data()))
        .copyTo(image_);
    // Line thickness and text scale with the frame: 2 pixels and 0.45 (about 10 pixels high) at 640 × 480.
    const double side = std::sqrt(static_cast<double>(picture.width) * picture.height);
    thickness_ = std::max(1, cvRound(side / 280));
    font_scale_ = std::max(0.35, side / 1230);
    font_thickness_ = std::max(1, cvRound(font_scale_ * 1.8));
  }
  const cv::Mat& image() const { return image_; }

  void draw(const Mask& mask, const cv::Scalar& color) {
    const auto size = static_cast<std::size_t>(std::max(0, mask.width)) *
                      static_cast<std::size_t>(std::max(0, mask.height));
    const cv::Rect whole(point(mask.left, mask.top), point(mask.right, mask.bottom));
    const cv::Rect seen = whole & cv::Rect({0, 0}, image_.size());
    if (size == 0 || mask.values.size() < size || seen.empty()) return;
    const cv::Mat values(mask.height, mask.width, CV_8UC1, const_cast<std::uint8_t*>(mask.values.data()));
    cv::Mat scaled;
    cv::resize(values, scaled, whole.size(), 0, 0, cv::INTER_LINEAR);
    const cv::Mat weights = scaled(seen - whole.tl());
    cv::Mat target = image_(seen);
    for (int y = 0; y < target.rows; ++y) {
      for (int x = 0; x < target.cols; ++x) {
        const double weight = kMaskOpacity * weights.at<std::uint8_t>(y, x) / 255.0;
        cv::Vec3b& pixel = target.at<cv::Vec3b>(y, x);
        for (int c = 0; c < 3; ++c)
          pixel[c] = cv::saturate_cast<std::uint8_t>(pixel[c] * (1 - weight) + color[c] * weight);
      }
    }
  }

  void draw(const Detection& detection, const cv::Scalar& color) {
    cv::rectangle(image_, point(detection.left, detection.top), point(detection.right, detection.bottom),
                  color, thickness_, cv::LINE_AA);
    const int count =
        std::clamp(detection.landmark_count, 0, static_cast<int>(detection.landmarks.size()) / 2);
    for (int i = 0; i < count; ++i) {
      const std::size_t at = 2 * static_cast<std::size_t>(i);
      dot(point(detection.landmarks[at], detection.landmarks[at + 1]), color);
    }
  }

  void draw(const Quad& quad, const cv::Scalar& color) {
    std::array<cv::Point, 4> corners;
    for (std::size_t i = 0; i < 4; ++i) corners[i] = point(quad.corners[2 * i], quad.corners[2 * i + 1]);
    cv::polylines(image_, corners, true, color, thickness_, cv::LINE_AA);
  }

  void draw(const LineSegment& line, const cv::Scalar& color) {
    cv::line(image_, point(line.x0, line.y0), point(line.x1, line.y1), color, thickness_, cv::LINE_AA);
    dot(point(line.x0, line.y0), color);
    dot(point(line.x1, line.y1), color);
  }

  // Draws a label above the corner on a filled background, always inside the frame; black or white text,
  // whichever is more readable.
  void label(const std::string& text, cv::Point corner, const cv::Scalar& color) {
    int below = 0;
    const cv::Size size =
        cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, font_scale_, font_thickness_, &below);
    const int margin = std::max(2, size.height / 3);
    const int width = size.width + 2 * margin;
    const int height = size.height + 2 * margin;
    const int left = std::clamp(corner.x - thickness_ / 2, 0, std::max(0, image_.cols - width));
    const int top = std::clamp(corner.y - height, 0, std::max(0, image_.rows - height));
    cv::rectangle(image_, cv::Rect(left, top, width, height), color, cv::FILLED);
    const double brightness = 0.114 * color[0] + 0.587 * color[1] + 0.299 * color[2];
    cv::putText(image_, text, {left + margin, top + margin + size.height}, cv::FONT_HERSHEY_SIMPLEX,
                font_scale_, brightness > 140 ? cv::Scalar(0, 0, 0) : cv::Scalar(255, 255, 255),
                font_thickness_, cv::LINE_AA);
  }

 private:
  void dot(cv::Point at, const cv::Scalar& color) {
    cv::circle(image_, at, thickness_ + 1, color, cv::FILLED, cv::LINE_AA);
  }

  cv::Mat image_;
  int thickness_ = 1, font_thickness_ = 1;
  double font_scale_ = 1;
};

std::string label_of(const Detection& detection, const std::vector<std::string>& class_names) {
  const auto id = static_cast<std::size_t>(detection.class_id);
  if (detection.class_id >= 0 && id < class_names.size() && !class_names[id].empty())
    return fmt::format("{} {:.2f}", class_names[id], detection.score);
  return fmt::format("class {} {:.2f}", detection.class_id, detection.score);
}

}  // namespace

Status OpenCvEngine::write_annotated(const Picture& picture, const FrameFindings& findings,
                                     const std::vector<std::string>& class_names, const std::string& path) {
  const PictureSize size{picture.width, picture.height};
  if (picture.width <= 0 || picture.height <= 0 || picture.bgr.size() < size.bytes())
    return internal_error(fmt::format("cannot draw {}", path), "the frame has no pixels");
  std::vector<std::uint8_t> jpeg;
  try {
    Canvas canvas(picture);
    // Draw masks first, then lines, then labels. Tasks return detections best first.
    for (std::size_t i = 0; i < findings.masks.size(); ++i)
      canvas.draw(findings.masks[i], color_of(static_cast<std::int64_t>(i)));
    for (const LineSegment& line : findings.lines) canvas.draw(line, color_of(0));
    for (const Quad& quad : findings.quads) canvas.draw(quad, color_of(0));
    for (const Detection& detection : findings.detections)
      canvas.draw(detection, color_of(detection.class_id));
    // Best last, so that its label is on top where labels overlap.
    for (auto found = findings.detections.rbegin(); found != findings.detections.rend(); ++found)
      canvas.label(label_of(*found, class_names), point(found->left, found->top), color_of(found->class_id));
    cv::imencode(".jpg", canvas.image(), jpeg, {cv::IMWRITE_JPEG_QUALITY, kJpegQuality});
  } catch (const cv::Exception& problem) {
    return failure(fmt::format("cannot draw {}", path), problem.err);
  }
  return write_file_atomically(path, {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
}

}  // namespace headroom::media
