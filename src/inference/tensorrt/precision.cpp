#include "inference/tensorrt/precision.h"

#include <fmt/format.h>

#include <array>

namespace headroom::tensorrt {
namespace {

constexpr std::array<std::string_view, 4> kNames{"fp32", "fp16", "bf16", "int8"};
constexpr int kFirstStronglyTyped = 11;

struct Version {
  int major, minor, patch;
};
Version parts_of(std::int32_t version) {
  const std::int32_t unit = version >= 10000 ? 10000 : 1000;
  return {version / unit, version % unit / 100, version % 100};
}

}  // namespace

std::string_view name_of(Precision precision) { return kNames.at(static_cast<std::size_t>(precision)); }

std::optional<Precision> parse_precision(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames.at(i) == name) return static_cast<Precision>(i);
  return std::nullopt;
}

std::optional<std::string> why_not(Precision precision, int tensorrt_major, bool is_quantized) {
  if (precision == Precision::fp32) return std::nullopt;
  if (precision == Precision::int8) {
    if (is_quantized) return std::nullopt;
    return "the model has no QuantizeLinear and DequantizeLinear nodes, and Headroom has no calibrator to "
           "find the scales; quantize the model first (onnxruntime.quantization, NVIDIA Model Optimizer), "
           "then build the quantized file";
  }
  if (tensorrt_major < kFirstStronglyTyped) return std::nullopt;
  return fmt::format(
      "TensorRT {} builds a model in the types of its file and no longer has the flag {}; convert the "
      "model's "
      "file and build it without --{}",
      tensorrt_major, precision == Precision::fp16 ? "FP16" : "BF16", name_of(precision));
}

bool needs_flag(Precision precision, int tensorrt_major) {
  return precision != Precision::fp32 && tensorrt_major < kFirstStronglyTyped;
}

std::string version_text(std::int32_t version) {
  const Version parts = parts_of(version);
  return fmt::format("{}.{}.{}", parts.major, parts.minor, parts.patch);
}

int major_of(std::int32_t version) { return parts_of(version).major; }

}  // namespace headroom::tensorrt
