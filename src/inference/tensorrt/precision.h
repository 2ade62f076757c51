// The precisions of an engine, and how each TensorRT version sets them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::tensorrt {

enum class Precision : std::int32_t { fp32 = 0, fp16 = 1, bf16 = 2, int8 = 3 };
std::string_view name_of(Precision precision);
std::optional<Precision> parse_precision(std::string_view name);

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

}  // namespace headroom::tensorrt
