// Hand-made results, one for each kind of run that a report must cover. All figures come from integer
// arithmetic, so that the golden files are identical on every processor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "types/bench_result.h"

namespace headroom::test {

BenchResult typical_run();   // three models inside a hard limit, no problems
BenchResult rich_run();      // four models, tuning, series, histograms, parallel, pipeline, warnings, an oom
BenchResult fallen_run();    // ok, oom, crash, timeout, a soft limit exceeded, names that need escaping
BenchResult parallel_run();  // two models alone and together, one of them killed together
BenchResult pipeline_run();  // three models in one process, without a limit
BenchResult pool_run();      // the same models in a pool
BenchResult incomplete_run();  // interrupted in the second of three models; a camera
BenchResult charged_run();     // resident memory above the limit, charged memory below it; few frames
BenchResult prepared_run();    // --tune --skip-inference: two models prepared, one of them tuned
BenchResult
gpu_run();  // on a GPU under a limit of its memory: two models, the second refused; alone and together
BenchResult vos_run();    // --task vos: two prompts of one net, objects alone, a leak, a video left out
BenchResult empty_run();  // nothing was measured

struct NamedRun {
  std::string name;
  BenchResult result;
};
// All of the above, with the names of their folders in tests/golden/report.
std::vector<NamedRun> sample_runs();

// Hand-made figures of models for the runs in sample_results.h.
constexpr Nanoseconds milliseconds(std::int64_t n) { return {n * 1'000'000}; }

// A latency with a long tail, as real ones have; `spread` is the standard deviation over the P50, in ‰.
LatencySummary latency(std::int64_t p50_us, std::int64_t n, std::int64_t spread = 18);

// 200 points of resident memory: up to the loaded model with a hump, then a flat curve with small waves.
std::vector<MemoryPoint> memory_series(Bytes start, Bytes runtime, Bytes load_peak, Bytes run_peak,
                                       Nanoseconds end);

struct Shape {
  std::string name, task, input;
  std::int64_t p50_us = 0;
  std::int64_t own_kib = 0;   // loaded − runtime
  std::int64_t work_kib = 0;  // run peak − loaded
  std::int64_t file_kib = 0;
};

inline const Shape kNano416{"yolox_nano_416", "yolox", "float32[1,3,416,416]", 14'200, 9'120, 11'776, 3'652};
inline const Shape kNano640{"yolox_nano_640", "yolox", "float32[1,3,640,640]", 33'700, 9'984, 24'320, 3'680};
inline const Shape kNano1280{
    "yolox_nano_1280", "yolox", "float32[1,3,1280,1280]", 141'300, 12'160, 88'064, 3'808};
inline const Shape kFace{"blazeface", "blazeface", "float32[1,3,128,128]", 880, 2'048, 1'280, 412};
inline const Shape kText{"text", "db_text", "float32[1,3,?,?]", 96'400, 14'336, 61'440, 4'640};

ModelResult measured(const Shape& shape, std::int64_t n, std::optional<Limit> limit);
ModelResult fallen(const std::string& name, ModelStatus status, Phase phase, const std::string& error);
// Adds memory over time, phases, pictures and cleanups.
void add_course(ModelResult& model);
void add_tuning(ModelResult& model);
LayerMemory traced_layers();
// Every field has a different value.
GpuMemory some_gpu_memory();

}  // namespace headroom::test
