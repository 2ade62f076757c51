// J, F and the reference benchmark's proxy of F for one frame on one core: two overlapping blobs with ragged
// boundaries, and the worst case, in which every second pixel is a boundary.
#include <benchmark/benchmark.h>

#include <cmath>

#include "evaluation/mask_metrics.h"

namespace {

using headroom::BinaryMask;
using namespace headroom::evaluation;

template <class IsInside>
BinaryMask make_mask(int width, int height, IsInside is_inside) {
  BinaryMask mask{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) mask.pixels.push_back(is_inside(x, y) ? 1 : 0);
  return mask;
}

// A blob of a sixth of the picture, moved by `shift` pixels.
BinaryMask blob(int width, int height, int shift) {
  return make_mask(width, height, [=](int x, int y) {
    const double dx = x - width / 2 - shift, dy = y - height / 2;
    return std::hypot(dx, dy) < 0.3 * height + 0.02 * height * std::sin(40 * std::atan2(dy, dx));
  });
}

BinaryMask stripes(int width, int height, int shift) {
  return make_mask(width, height, [=](int x, int) { return (x + shift) % 4 < 2; });
}

enum class Figure { j, f, proxy };

double score(Figure figure, const BinaryMask& truth, const BinaryMask& prediction, MetricScratch& scratch) {
  if (figure == Figure::j) return region_similarity(truth, prediction);
  if (figure == Figure::f) return boundary_measure(truth, prediction, scratch);
  return reference_boundary_measure(truth, prediction, scratch);
}

void measure(benchmark::State& state, Figure figure, BinaryMask (*make)(int, int, int)) {
  const int width = static_cast<int>(state.range(0)), height = static_cast<int>(state.range(1));
  const BinaryMask truth = make(width, height, 0), prediction = make(width, height, 5);
  MetricScratch scratch;
  for (auto _ : state) benchmark::DoNotOptimize(score(figure, truth, prediction, scratch));
}

void register_figure(const char* name, Figure figure) {
  const std::string text = name;
  benchmark::RegisterBenchmark((text + "/blob").c_str(), measure, figure, blob)
      ->Args({854, 480})
      ->Args({1920, 1080})
      ->Args({3840, 2160})
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark((text + "/stripes").c_str(), measure, figure, stripes)
      ->Args({854, 480})
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  register_figure("j", Figure::j);
  register_figure("f", Figure::f);
  register_figure("proxy", Figure::proxy);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
