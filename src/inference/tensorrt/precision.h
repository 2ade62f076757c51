// The precisions that an engine can be asked for, and which version of TensorRT can be asked how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::tensorrt {

enum class Precision : std::int32_t { fp32 = 0, fp16 = 1, bf16 = 2, int8 = 3 };
std::string_view name_of(Precision precision);
std::optional<Precision> parse_precision(std::string_view name);

// Why TensorRT of this major version cannot build a model in this precision, in one sentence; or nothing. Up
// to version 10 a builder chooses among the precisions that flags allow; from 11 on networks are strongly
// typed, and what the model's file says is what is built. `is_quantized`: the model has QuantizeLinear or
// DequantizeLinear nodes; without them INT8 needs a calibrator (version 10) or cannot be had (11). Headroom
// has none: what it would be fed with changes the result.
std::optional<std::string> why_not(Precision precision, int tensorrt_major, bool is_quantized);

// Whether the builder must be given the precision's flag.
bool needs_flag(Precision precision, int tensorrt_major);

// "10.16.1" of getInferLibVersion(), which counts 10000 for a major version since 10 and 1000 before.
std::string version_text(std::int32_t version);
int major_of(std::int32_t version);

}  // namespace headroom::tensorrt
