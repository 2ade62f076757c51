// Shared by the tests of this module: the engine, test pictures, and common steps.
#pragma once

#include <filesystem>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "media/media_engine.h"
#include "types/source.h"

namespace headroom::media {

// The engine of this build's plug-in.
MediaEngine& engine();

// A picture with smooth colours and hard edges, which exercises every codec.
cv::Mat test_picture(int width, int height);
// The same picture in one 16-bit channel, like that of a thermal camera: values around 30000.
cv::Mat thermal_picture(int width, int height);
// Writes a file with OpenCV; the test fails if writing fails.
void write_image(const std::filesystem::path& path, const cv::Mat& image,
                 const std::vector<int>& parameters = {});

// A view of a decoded picture.
cv::Mat as_mat(const Picture& picture);
// The largest difference of any channel of any pixel; 256 if the shapes differ.
double largest_difference(const cv::Mat& a, const cv::Mat& b);
double mean_difference(const cv::Mat& a, const cv::Mat& b);

}  // namespace headroom::media
