// Compares the pre-processing with OpenCV's resize, copyMakeBorder, cvtColor and convertTo.
#include <gtest/gtest.h>

#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <random>

#include "inference/preprocessor.h"
#include "support/test_support.h"

namespace headroom::inference {
namespace {

cv::Mat noise_picture(int width, int height, std::uint32_t seed) {
  cv::Mat picture(height, width, CV_8UC3);
  std::mt19937 random(seed);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width * 3; ++x) picture.ptr(y)[x] = static_cast<std::uint8_t>(random());
  return picture;
}

// OpenCV's result as levels 0..255, interleaved in the order of `channels`.
cv::Mat reference(const cv::Mat& frame, const InputSpec& spec) {
  const Placement place = place_frame(spec, frame.cols, frame.rows);
  cv::Mat resized, padded, converted;
  cv::resize(frame, resized, {place.width, place.height}, 0, 0, cv::INTER_LINEAR);
  cv::copyMakeBorder(resized, padded, place.y, spec.height - place.height - place.y, place.x,
                     spec.width - place.width - place.x, cv::BORDER_CONSTANT, cv::Scalar::all(spec.pad));
  if (spec.channels == ChannelOrder::bgr) return padded;
  cv::cvtColor(padded, converted,
               spec.channels == ChannelOrder::gray ? cv::COLOR_BGR2GRAY : cv::COLOR_BGR2RGB);
  return converted;
}

std::size_t index_in(const InputSpec& spec, int y, int x, int c, int channels) {
  return static_cast<std::size_t>(spec.layout == Layout::nchw ? (c * spec.height + y) * spec.width + x
                                                              : (y * spec.width + x) * channels + c);
}

InputSpec square_input(int side) {
  InputSpec spec;
  spec.width = spec.height = side;
  return spec;
}

// The largest difference in levels.
double worst_difference(const cv::Mat& frame, const InputSpec& spec) {
  const int channels = channel_count(spec.channels);
  std::vector<float> tensor(static_cast<std::size_t>(spec.width) * spec.height * channels, NAN);
  Preprocessor preprocessor(spec);
  preprocessor.run(frame.data, frame.cols, frame.rows, frame.step, tensor.data());
  const cv::Mat expected = reference(frame, spec);
  double worst = 0;
  for (int y = 0; y < spec.height; ++y)
    for (int x = 0; x < spec.width; ++x)
      for (int c = 0; c < channels; ++c) {
        const auto i = static_cast<std::size_t>(c);
        const double level = tensor[index_in(spec, y, x, c, channels)] / spec.scale[i] + spec.mean[i];
        const double difference = std::abs(level - expected.ptr(y)[x * channels + c]);
        if (!(difference <= worst)) worst = difference;  // an unwritten element is NaN and must fail
      }
  return worst;
}

struct OpenCvCase {
  int frame_width, frame_height, width, height;
  friend std::ostream& operator<<(std::ostream& out, const OpenCvCase& size) {
    return out << size.frame_width << "x" << size.frame_height << "_to_" << size.width << "x" << size.height;
  }
};
class AgainstOpenCv : public testing::TestWithParam<OpenCvCase> {};

TEST_P(AgainstOpenCv, EveryLevelWithinOne) {
  const OpenCvCase& size = GetParam();
  const cv::Mat frame = noise_picture(size.frame_width, size.frame_height, 3);
  for (const Resize resize : {Resize::letterbox, Resize::letterbox_top_left, Resize::stretch})
    for (const Layout layout : {Layout::nchw, Layout::nhwc})
      for (const ChannelOrder channels : {ChannelOrder::rgb, ChannelOrder::bgr, ChannelOrder::gray}) {
        InputSpec spec;
        spec.width = size.width;
        spec.height = size.height;
        spec.resize = resize;
        spec.layout = layout;
        spec.channels = channels;
        EXPECT_LE(worst_difference(frame, spec), 0.001)
            << "resize " << static_cast<int>(resize) << ", layout " << static_cast<int>(layout)
            << ", channels " << static_cast<int>(channels);
      }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, AgainstOpenCv,
    testing::Values(OpenCvCase{1920, 1080, 640, 640},  // down, odd factor
                    OpenCvCase{768, 576, 640, 640},    // down a little
                    OpenCvCase{1280, 720, 640, 640},   // down by two: OpenCV takes another path
                    OpenCvCase{320, 240, 640, 640},    // up by two
                    OpenCvCase{100, 75, 640, 640},     // up
                    OpenCvCase{640, 640, 640, 640},    // identity
                    OpenCvCase{640, 480, 640, 640},    // identity across
                    OpenCvCase{333, 777, 416, 416},    // tall
                    OpenCvCase{1001, 13, 352, 352},    // wide
                    OpenCvCase{1, 1, 32, 32}, OpenCvCase{1, 50, 32, 32}, OpenCvCase{50, 1, 32, 32},
                    OpenCvCase{2, 2, 33, 31}, OpenCvCase{500, 400, 1, 1}, OpenCvCase{640, 512, 320, 240},
                    OpenCvCase{548, 342, 256, 144}),
    testing::PrintToStringParamName());

TEST(PreprocessorAgainstOpenCv, RandomSizesAndNormalisations) {
  std::mt19937 random(11);
  for (int i = 0; i < 150; ++i) {
    InputSpec spec;
    spec.width = 1 + static_cast<int>(random() % 200);
    spec.height = 1 + static_cast<int>(random() % 200);
    spec.layout = random() % 2 == 0 ? Layout::nchw : Layout::nhwc;
    spec.channels = random() % 2 == 0 ? ChannelOrder::rgb : ChannelOrder::bgr;
    spec.resize = static_cast<Resize>(random() % 3);
    spec.pad = static_cast<std::uint8_t>(random());
    spec.mean = {static_cast<float>(random() % 256), 116, 127.5F};
    spec.scale = {1 / 58.0F, 1 / 128.0F, 2};
    const cv::Mat frame =
        noise_picture(1 + static_cast<int>(random() % 400), 1 + static_cast<int>(random() % 400),
                      static_cast<std::uint32_t>(random()));
    EXPECT_LE(worst_difference(frame, spec), 0.001)
        << frame.cols << "x" << frame.rows << " to " << spec.width << "x" << spec.height;
  }
}

TEST(PreprocessorAgainstOpenCv, PhotoMatchesExactly) {
  const auto path = test::opencv_example("data/messi5.jpg");
  if (!path) GTEST_SKIP() << test::absent_message("messi5.jpg of opencv-doc");
  EXPECT_LT(worst_difference(cv::imread(path->string()), square_input(640)), 0.001);
}

TEST(PreprocessorAgainstOpenCv, AcceptsPaddedRows) {
  const cv::Mat whole = noise_picture(300, 200, 5);
  const cv::Mat part = whole(cv::Rect(17, 9, 150, 100));  // a stride of its own
  EXPECT_LE(worst_difference(part, square_input(96)), 0.001);
}

TEST(Preprocessor, BytesAreRoundedAndClipped) {
  const cv::Mat frame(4, 4, CV_8UC3, cv::Scalar(10, 100, 200));
  InputSpec spec = square_input(4);
  spec.type = ElementType::uint8;
  spec.layout = Layout::nhwc;
  spec.scale = {2, 1, 0.25F};
  std::vector<std::uint8_t> tensor(4 * 4 * 3);
  Preprocessor(spec).run(frame.data, 4, 4, frame.step, tensor.data());
  EXPECT_EQ(tensor[0], 255);  // red 200 · 2
  EXPECT_EQ(tensor[1], 100);
  EXPECT_EQ(tensor[2], 2);  // blue 10 / 4 = 2.5, half to even
}

TEST(Preprocessor, FourthChannelIsOne) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    const cv::Mat frame = noise_picture(30, 10, 9);
    InputSpec spec = square_input(16);
    spec.channels = ChannelOrder::rgba;
    spec.layout = layout;
    spec.scale = {1, 1, 1};
    std::vector<float> tensor(std::size_t{4} * 16 * 16, NAN);
    Preprocessor(spec).run(frame.data, frame.cols, frame.rows, frame.step, tensor.data());
    for (int y = 0; y < 16; ++y)
      for (int x = 0; x < 16; ++x) ASSERT_EQ(tensor[index_in(spec, y, x, 3, 4)], 1.0F) << y << " " << x;
  }
}

TEST(Preprocessor, AcceptsChangingFrameSizes) {
  InputSpec spec = square_input(64);
  Preprocessor used(spec);
  std::vector<float> tensor(std::size_t{3} * 64 * 64), fresh(tensor.size());
  for (const auto& [width, height] : {std::pair{100, 50}, {50, 100}, {100, 50}, {64, 64}}) {
    const cv::Mat frame = noise_picture(width, height, 1);
    used.run(frame.data, width, height, frame.step, tensor.data());
    Preprocessor(spec).run(frame.data, width, height, frame.step, fresh.data());
    EXPECT_EQ(tensor, fresh) << width << "x" << height;
  }
}

}  // namespace
}  // namespace headroom::inference
