// The part of building an engine that does not need TensorRT: precisions, input shapes, and the call of the
// plug-in's builder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom::tensorrt {

// The precisions of an engine, and how each TensorRT version sets them.
enum class Precision : std::int32_t { fp32 = 0, fp16 = 1, bf16 = 2, int8 = 3 };
constexpr std::string_view name_of(Precision precision) {
  return name_in({"fp32", "fp16", "bf16", "int8"}, precision);
}
constexpr std::optional<Precision> parse_precision(std::string_view name) {
  return find_named(name, Precision::int8);
}

// Returns why this major version of TensorRT cannot build a model in this precision, or nothing.
//
// Up to version 10, a builder chooses among the precisions that flags allow. From version 11 on, networks
// are strongly typed: the engine has the types of the model's file. INT8 needs a model with QuantizeLinear
// or DequantizeLinear nodes (`is_quantized`). Version 10 could also use a calibrator, but Headroom has
// none, because the calibration data would change the result.
std::optional<std::string> why_not(Precision precision, int tensorrt_major, bool is_quantized);

// True if the builder needs the precision's flag.
bool needs_flag(Precision precision, int tensorrt_major);

// "10.16.1" from getInferLibVersion(), which multiplies the major version by 10000 since 10, and by 1000
// before.
std::string version_text(std::int32_t version);
int major_of(std::int32_t version);

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

// Calls the engine builder of the TensorRT plug-in. Call it in a child process, because the libraries that it
// loads stay loaded. Errors of ErrorKind::input: the plug-in has no builder, or TensorRT or the driver is
// missing. Errors of ErrorKind::failed: the builder failed; `why` begins with "out of memory" if an
// allocation was refused.
Result<EngineOutcome> build_engine_with(const std::filesystem::path& plugin, const EngineRequest& request,
                                        const std::function<void(const std::string&)>& progress);

// Chooses fixed shapes for a model's dynamic inputs: returns `dims` with every -1 resolved. A dynamic first
// dimension becomes a batch of 1. Up to two other dynamic dimensions of a picture (three or four dimensions)
// become `image_size`, in pixels. Fails for any other dynamic dimension (the length of a text, for example).
Result<std::vector<std::int64_t>> resolve_shape(const std::string& name,
                                                const std::vector<std::int64_t>& dims, int image_size);

}  // namespace headroom::tensorrt
