// Generated runs of one model, for tests that compare runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparison/run_comparison.h"
#include "monitoring/latency_summary.h"

namespace headroom::comparison {

// Runs of one model whose frames take about `nanoseconds`.
struct Runs {
  std::deque<BenchResult> results;
  comparison::Side side;

  void add(std::int64_t nanoseconds, std::int64_t peak, unsigned seed, const std::string& model = "det") {
    BenchResult& result = results.emplace_back();
    result.complete = true;
    ModelResult& made = result.models.emplace_back();
    made.name = model;
    made.status = ModelStatus::ok;
    made.memory.run_peak = Bytes{peak};
    made.frames = 200;
    std::mt19937 random(seed);
    std::vector<FrameTimes> frames;
    std::vector<std::int64_t> times;
    for (int i = 0; i < 200; ++i) {
      FrameTimes frame;
      frame.inference = {nanoseconds + static_cast<std::int64_t>(random() % 2000)};
      times.push_back(frame.inference.count);
      frames.push_back(frame);
    }
    made.inference = monitoring::summarise_latency(std::move(times));
    made.fps = 1e9 / made.inference->mean_ns;
    side.push_back({"run", &result, {{&made, std::move(frames), "f00d"}}});
  }
};

class CompareRuns : public testing::Test {
 protected:
  // One more run on each side, with equal times and these peaks.
  void add(std::int64_t peak_a, std::int64_t peak_b) {
    a.add(1'000'000, peak_a, ++seed_);
    b.add(1'000'000, peak_b, ++seed_);
  }
  RunComparison compare() const { return compare_runs(a.side, b.side); }
  bool differs(std::string_view metric) const { return compare().models[0].find(metric)->differs; }

  Runs a, b;

 private:
  unsigned seed_ = 0;
};

}  // namespace headroom::comparison
