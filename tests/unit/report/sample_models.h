// Hand-made figures of models for the runs in sample_results.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "types/bench_result.h"

namespace headroom::test {

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
