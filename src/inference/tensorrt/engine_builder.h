// The builder of the TensorRT plug-in, from C++. To be called in a child process: what it loads stays.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "inference/tensorrt/precision.h"

namespace headroom::tensorrt {

struct EngineOrder {
  std::filesystem::path model, engine;
  std::string device = "cuda:0";
  std::string creator, created_at;  // for the record: Headroom's version, and the time
  int image_size = 640;
  Precision precision = Precision::fp32;
  Bytes workspace;  // 0: TensorRT's own bound
  bool force = false;
};

struct EngineOutcome {
  bool was_there = false;  // and is what was asked for: nothing was done
  Bytes device_peak;       // through the builder's allocator
  std::int64_t refused = 0;
  std::string note;
};

// Errors: no builder in this plug-in, TensorRT or a driver missing (ErrorKind::input), what the builder says
// (failed; `why` begins with "out of memory" where memory was refused).
Result<EngineOutcome> build_engine_with(const std::filesystem::path& plugin, const EngineOrder& order,
                                        const std::function<void(const std::string&)>& progress);

}  // namespace headroom::tensorrt
