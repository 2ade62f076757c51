// Frame to tensor: Headroom's single pass compared with the usual OpenCV chain (resize, copyMakeBorder,
// cvtColor, convertTo with scale, split into planes). OpenCV runs with its default threads and with one;
// Headroom always uses one.
#include <benchmark/benchmark.h>

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <random>
#include <vector>

#include "inference/preprocessor.h"

namespace {

using namespace headroom::inference;

constexpr int kSide = 640;

// A smooth image with noise, so that neither side profits from uniform memory.
cv::Mat frame(int width, int height) {
  cv::Mat picture(height, width, CV_8UC3);
  std::mt19937 random(1);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width * 3; ++x)
      picture.ptr(y)[x] = static_cast<std::uint8_t>((x / 3 + y + static_cast<int>(random() % 64)) & 255);
  return picture;
}

InputSpec yolo_input() {
  InputSpec spec;
  spec.width = spec.height = kSide;
  return spec;
}

void headroom_pass(benchmark::State& state, const RowKernels* kernels) {
  const cv::Mat picture = frame(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  Preprocessor preprocessor(yolo_input(), kernels);
  std::vector<float> tensor(std::size_t{3} * kSide * kSide);
  for (auto _ : state) {
    preprocessor.run(picture.data, picture.cols, picture.rows, picture.step, tensor.data());
    benchmark::ClobberMemory();
  }
}

void opencv_chain(benchmark::State& state, int threads) {
  const cv::Mat picture = frame(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const int before = cv::getNumThreads();
  if (threads > 0) cv::setNumThreads(threads);
  const Placement place = place_frame(yolo_input(), picture.cols, picture.rows);
  std::vector<float> tensor(std::size_t{3} * kSide * kSide);
  std::vector<cv::Mat> planes;
  for (std::size_t c = 0; c < 3; ++c)
    planes.emplace_back(kSide, kSide, CV_32F, tensor.data() + c * kSide * kSide);
  cv::Mat resized, padded, rgb, scaled;  // kept between frames, as in a careful program
  for (auto _ : state) {
    cv::resize(picture, resized, {place.width, place.height}, 0, 0, cv::INTER_LINEAR);
    cv::copyMakeBorder(resized, padded, place.y, kSide - place.height - place.y, place.x,
                       kSide - place.width - place.x, cv::BORDER_CONSTANT, {114, 114, 114});
    cv::cvtColor(padded, rgb, cv::COLOR_BGR2RGB);
    rgb.convertTo(scaled, CV_32F, 1.0 / 255);
    cv::split(scaled, planes);
    benchmark::ClobberMemory();
  }
  cv::setNumThreads(before);
}

void frame_sizes(benchmark::internal::Benchmark* made) {
  made->Args({1920, 1080})->Args({768, 576})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  for (const RowKernels* kernels : available_kernels())
    frame_sizes(
        benchmark::RegisterBenchmark(("headroom/" + std::string(kernels->name)).c_str(),
                                     [kernels](benchmark::State& state) { headroom_pass(state, kernels); }));
  frame_sizes(benchmark::RegisterBenchmark("opencv/default_threads",
                                           [](benchmark::State& state) { opencv_chain(state, 0); }));
  frame_sizes(benchmark::RegisterBenchmark("opencv/one_thread",
                                           [](benchmark::State& state) { opencv_chain(state, 1); }));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
