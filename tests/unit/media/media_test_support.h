// What the tests of this room share: the engine, pictures to write, and short forms of common steps.
#pragma once

#include <filesystem>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "media/media_engine.h"
#include "model/source.h"

namespace headroom::media {

// The plug-in of this build.
MediaEngine& engine();

// A picture with smooth colours and hard edges, so that every codec has something to do.
cv::Mat test_picture(int width, int height);
// The same folded into one channel of 16 bits, as a thermal camera gives it: values around 30000.
cv::Mat thermal_picture(int width, int height);
// Writes with OpenCV; the test fails if that does not work.
void write_image(const std::filesystem::path& path, const cv::Mat& image,
                 const std::vector<int>& parameters = {});
// A video of `frames` different frames.
void write_video(const std::filesystem::path& path, int frames, int width, int height);

// A view of a decoded picture.
cv::Mat as_mat(const Picture& picture);
// Largest difference of any channel of any pixel; 256 if the shapes differ.
double largest_difference(const cv::Mat& a, const cv::Mat& b);
double mean_difference(const cv::Mat& a, const cv::Mat& b);

}  // namespace headroom::media
