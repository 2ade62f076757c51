// Decoding and suppression of raw YOLO outputs at 640×640 on one core: v5 [1, 25200, 85] and v8 [1, 84,
// 8400]. `share`: anchors above the confidence threshold, in per mille. `spread`: number of objects that the
// boxes cluster around (0: random places, so hardly any overlap).
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "inference/task.h"

namespace {

using namespace headroom;
using namespace headroom::inference;

constexpr std::int64_t kClasses = 80;

struct Head {
  std::int64_t anchors;
  bool rows_first;  // v8: a row per value; v5: a row per anchor
  std::int64_t columns() const { return kClasses + (rows_first ? 4 : 5); }
};
constexpr Head kV5{25200, false};
constexpr Head kV8{8400, true};

std::vector<float> make_output(const Head& head, std::int64_t share, std::int64_t objects) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> unit(0, 1);
  std::normal_distribution<float> jitter(0, 4);
  std::vector<float> output(static_cast<std::size_t>(head.anchors * head.columns()));
  const auto put = [&](std::int64_t anchor, std::int64_t column, float value) {
    const std::int64_t at =
        head.rows_first ? column * head.anchors + anchor : anchor * head.columns() + column;
    output[static_cast<std::size_t>(at)] = value;
  };
  std::vector<std::array<float, 4>> centres;
  for (std::int64_t i = 0; i < objects; ++i)
    centres.push_back(
        {unit(random) * 640, unit(random) * 640, 30 + unit(random) * 200, 30 + unit(random) * 200});
  for (std::int64_t anchor = 0; anchor < head.anchors; ++anchor) {
    const bool found = static_cast<std::int64_t>(random() % 1000) < share;
    std::int64_t favourite = static_cast<std::int64_t>(random() % kClasses);
    std::array<float, 4> box{unit(random) * 640, unit(random) * 640, 10 + unit(random) * 100,
                             10 + unit(random) * 100};
    if (!centres.empty()) {
      const std::size_t object = random() % centres.size();
      box = centres[object];
      for (float& value : box) value += jitter(random);
      favourite = static_cast<std::int64_t>(object) % kClasses;
    }
    for (std::int64_t i = 0; i < 4; ++i) put(anchor, i, box[static_cast<std::size_t>(i)]);
    if (!head.rows_first) put(anchor, 4, found ? 0.6F + 0.4F * unit(random) : 0.2F * unit(random));
    const std::int64_t first = head.columns() - kClasses;
    for (std::int64_t c = 0; c < kClasses; ++c) put(anchor, first + c, 0.1F * unit(random));
    if (found) put(anchor, first + favourite, 0.5F + 0.5F * unit(random));
  }
  return output;
}

void decode(benchmark::State& state, const char* name, const Head& head) {
  const std::vector<float> output = make_output(head, state.range(0), state.range(1));
  const std::vector<std::int64_t> dims = head.rows_first
                                             ? std::vector<std::int64_t>{1, head.columns(), head.anchors}
                                             : std::vector<std::int64_t>{1, head.anchors, head.columns()};
  ModelDescription model;
  model.inputs.push_back({"images", ElementType::float32, {1, 3, 640, 640}, {}});
  model.outputs.push_back({"output0", ElementType::float32, dims, {}});
  TaskOptions options;
  options.forced = name;
  auto task = create_task(model, options);
  if (!task) {
    state.SkipWithError(task.error().sentence().c_str());
    return;
  }
  const TensorView view{output.data(), ElementType::float32, dims.data(), dims.size()};
  const FrameTransform transform{0.5F, 0.5F, 0, 140, 1280, 720};
  FrameFindings findings;
  for (auto _ : state) {
    findings.clear();
    (*task)->decode({&view, 1}, transform, findings);
    benchmark::DoNotOptimize(findings.detections.data());
  }
  state.counters["kept"] = static_cast<double>(findings.detections.size());
}

void loads(benchmark::internal::Benchmark* made) {
  made->ArgNames({"share", "spread"})->Unit(benchmark::kMicrosecond);
  for (const std::int64_t share : {10, 50, 200, 1000})
    for (const std::int64_t spread : {20, 0}) made->Args({share, spread});
}

}  // namespace

BENCHMARK_CAPTURE(decode, yolov5, "yolov5", kV5)->Apply(loads);
BENCHMARK_CAPTURE(decode, yolov8, "yolov8", kV8)->Apply(loads);
BENCHMARK_MAIN();
