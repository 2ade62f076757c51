// Tests that all versions of the inner loops give the same numbers, and stay within their buffers.
#include "inference/preprocessor.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

namespace headroom::inference {
namespace {

struct Case {
  int frame_width, frame_height, input_width, input_height;
};

std::vector<std::uint8_t> noise(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(n);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

std::vector<std::uint8_t> run(const RowKernels& kernels, const InputSpec& spec, const Case& size) {
  // Exactly as long as the frame, so that a sanitizer detects a read past its end.
  const auto frame = noise(std::size_t{3} * size.frame_width * size.frame_height, 7);
  const std::size_t element = spec.type == ElementType::uint8 ? 1 : 4;
  std::vector<std::uint8_t> tensor(static_cast<std::size_t>(size.input_width) * size.input_height *
                                   static_cast<std::size_t>(channel_count(spec.channels)) * element);
  Preprocessor preprocessor(spec, &kernels);
  preprocessor.run(frame.data(), size.frame_width, size.frame_height, std::size_t{3} * size.frame_width,
                   tensor.data());
  return tensor;
}

TEST(PreprocessorKernels, AllVersionsGiveTheSameNumbers) {
  const std::vector<Case> sizes{{64, 48, 32, 32}, {1, 1, 8, 8},        {2, 1, 9, 5},      {3, 3, 3, 3},
                                {7, 5, 64, 64},   {101, 67, 40, 24},   {40, 24, 101, 67}, {500, 3, 33, 33},
                                {3, 500, 33, 33}, {257, 255, 256, 256}};
  for (const Case& size : sizes)
    for (const Layout layout : {Layout::nchw, Layout::nhwc})
      for (const ChannelOrder channels :
           {ChannelOrder::rgb, ChannelOrder::bgr, ChannelOrder::gray, ChannelOrder::rgba})
        for (const Resize resize : {Resize::letterbox, Resize::letterbox_top_left, Resize::stretch})
          for (const ElementType type : {ElementType::float32, ElementType::uint8}) {
            InputSpec spec;
            spec.width = size.input_width;
            spec.height = size.input_height;
            spec.layout = layout;
            spec.channels = channels;
            spec.resize = resize;
            spec.type = type;
            spec.mean = {1, 2, 3};
            spec.scale = {0.5F, 0.7F, 0.9F};
            const auto expected = run(*available_kernels().front(), spec, size);
            for (const RowKernels* kernels : available_kernels())
              ASSERT_EQ(run(*kernels, spec, size), expected)
                  << kernels->name << ", " << size.frame_width << "x" << size.frame_height << " to "
                  << size.input_width << "x" << size.input_height << ", layout " << static_cast<int>(layout)
                  << ", channels " << static_cast<int>(channels) << ", resize " << static_cast<int>(resize);
          }
}

TEST(PreprocessorKernels, ThisMachineHasAFastVersion) {
#if defined(__aarch64__)
  EXPECT_EQ(available_kernels().back()->name, "neon");
#elif defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.1")) {
    EXPECT_NE(available_kernels().back()->name, "portable");
  }
#else
  EXPECT_EQ(available_kernels().back()->name, "portable");
#endif
}

TEST(Placement, RoundsAsUltralyticsAndYoloxDo) {
  struct Row {
    Resize resize;
    int input, width, height;  // a square input, and the frame
    int x, y, placed_width, placed_height;
  };
  const Row rows[] = {
      // r = 0.5: height 360.5 rounds half to even, to 360.
      {Resize::letterbox, 640, 1280, 721, 0, 140, 640, 360},
      // An odd remainder: 279 rows to fill, round(139.5 − 0.1) = 139 above and 140 below.
      {Resize::letterbox, 640, 1280, 722, 0, 139, 640, 361},
      {Resize::letterbox_top_left, 640, 1280, 723, 0, 0, 640, 361},  // 361.5 is truncated
      {Resize::letterbox, 32, 10000, 1, 0, 15, 32, 1}};              // the narrowest frames keep one pixel
  for (const Row& row : rows) {
    InputSpec spec;
    spec.width = spec.height = row.input;
    spec.resize = row.resize;
    const Placement place = place_frame(spec, row.width, row.height);
    EXPECT_EQ(std::tie(place.x, place.y, place.width, place.height),
              std::tie(row.x, row.y, row.placed_width, row.placed_height));
    EXPECT_EQ(place.transform.offset_y, static_cast<float>(row.y));
    EXPECT_FLOAT_EQ(place.transform.scale_x, static_cast<float>(row.input) / static_cast<float>(row.width));
  }
}

}  // namespace
}  // namespace headroom::inference
