// Calls the engine builder of the TensorRT plug-in. Call it in a child process, because the libraries that
// it loads stay loaded.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "inference/tensorrt/precision.h"

namespace headroom::tensorrt {

struct EngineRequest {
  std::filesystem::path model, engine;
  std::string device = "cuda:0";
  std::string creator, created_at;  // for the record: Headroom's version, and the time
  int image_size = 640;             // pixels, for dynamic sides of the inputs
  Precision precision = Precision::fp32;
  Bytes workspace;  // 0: TensorRT's default limit
  bool force = false;
};

struct EngineOutcome {
  bool already_built = false;  // a matching engine existed, so nothing was built
  Bytes device_peak;           // largest amount of device memory allocated by the builder
  std::int64_t refused = 0;    // number of refused allocations
  std::string note;            // a note for the user, or empty
};

// Errors of ErrorKind::input: the plug-in has no builder, or TensorRT or the driver is missing. Errors of
// ErrorKind::failed: the builder failed; `why` begins with "out of memory" if an allocation was refused.
Result<EngineOutcome> build_engine_with(const std::filesystem::path& plugin, const EngineRequest& request,
                                        const std::function<void(const std::string&)>& progress);

}  // namespace headroom::tensorrt
