#include "unit/media/media_test_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "support/test_support.h"

namespace headroom::media {

MediaEngine& engine() {
  static const std::unique_ptr<MediaEngine> instance = [] {
    ::setenv("HEADROOM_BACKEND_PATH", test::built_path("bin").c_str(), 1);
    auto loaded = load_media_engine();
    if (!loaded) throw std::runtime_error(loaded.error().sentence());
    return std::move(*loaded);
  }();
  return *instance;
}

cv::Mat test_picture(int width, int height) {
  cv::Mat image(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      image.at<cv::Vec3b>(y, x) = {static_cast<std::uint8_t>(255 * x / width),
                                   static_cast<std::uint8_t>(255 * y / height),
                                   static_cast<std::uint8_t>((x / 8 + y / 8) % 2 == 0 ? 200 : 50)};
  return image;
}

cv::Mat thermal_picture(int width, int height) {
  cv::Mat image(height, width, CV_16UC1);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      image.at<std::uint16_t>(y, x) = static_cast<std::uint16_t>(29000 + 10 * x + y);
  return image;
}

void write_image(const std::filesystem::path& path, const cv::Mat& image,
                 const std::vector<int>& parameters) {
  std::filesystem::create_directories(path.parent_path());
  ASSERT_TRUE(cv::imwrite(path.string(), image, parameters)) << path;
}

cv::Mat as_mat(const Picture& picture) {
  return {picture.height, picture.width, CV_8UC3, const_cast<std::uint8_t*>(picture.bgr.data())};
}

double largest_difference(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() ? cv::norm(a, b, cv::NORM_INF) : 256;
}

double mean_difference(const cv::Mat& a, const cv::Mat& b) {
  if (a.size() != b.size() || a.type() != b.type()) return 256;
  return cv::norm(a, b, cv::NORM_L1) /
         static_cast<double>(a.total() * static_cast<std::size_t>(a.channels()));
}

}  // namespace headroom::media
