#include "inference/tensorrt/engine_builder.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "inference/plugin/plugin_failure.h"
#include "inference/tensorrt/engine_builder_plugin.h"
#include "types/tensor.h"

namespace headroom::tensorrt {
namespace {

constexpr int kFirstWithBf16 = 10, kFirstStronglyTyped = 11;

// What getInferLibVersion() multiplies the major version by.
std::int32_t unit_of(std::int32_t version) { return version >= 10000 ? 10000 : 1000; }

}  // namespace

Result<EngineOutcome> build_engine_with(const std::filesystem::path& plugin, const EngineRequest& request,
                                        const std::function<void(const std::string&)>& progress) {
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return input_error(fmt::format("cannot use the plug-in {}", plugin.string()), plugin::last_dl_error());
  const auto build =
      reinterpret_cast<hr_build_engine_function>(::dlsym(library, HEADROOM_ENGINE_BUILDER_SYMBOL));
  if (build == nullptr)
    return input_error(fmt::format("cannot build an engine with {}", plugin.string()),
                       fmt::format("it does not export {}()", HEADROOM_ENGINE_BUILDER_SYMBOL),
                       "use the plug-in of this Headroom");
  hr_engine_request wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.model = request.model.c_str();
  wanted.engine = request.engine.c_str();
  wanted.device = request.device.c_str();
  wanted.creator = request.creator.c_str();
  wanted.created_at = request.created_at.c_str();
  wanted.image_size = request.image_size;
  wanted.precision = static_cast<std::int32_t>(request.precision);
  wanted.workspace_bytes = request.workspace.count;
  wanted.force = request.force ? 1 : 0;
  wanted.progress = [](void* context, const char* text) {
    (*static_cast<const std::function<void(const std::string&)>*>(context))(text);
  };
  wanted.progress_context = const_cast<std::function<void(const std::string&)>*>(&progress);
  hr_engine_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  hr_error error{};
  if (build(&wanted, &outcome, &error) != 0) {
    error.message[sizeof error.message - 1] = '\0';
    const std::string what = fmt::format("cannot build an engine from {}", request.model.string()),
                      why = error.message;
    if (error.kind == HR_ERROR_UNAVAILABLE) return input_error(what, why);
    return failure(what, error.kind == HR_ERROR_OUT_OF_MEMORY ? "out of memory: " + why : why);
  }
  outcome.note[sizeof outcome.note - 1] = '\0';
  return EngineOutcome{outcome.already_built != 0, Bytes{outcome.device_peak_bytes}, outcome.refused,
                       outcome.note};
}

std::optional<std::string> why_not(Precision precision, int tensorrt_major, bool is_quantized) {
  if (precision == Precision::fp32) return std::nullopt;
  if (precision == Precision::int8) {
    if (is_quantized) return std::nullopt;
    return "the model has no QuantizeLinear and DequantizeLinear nodes, and Headroom has no calibrator to "
           "find the scales; quantize the model first (onnxruntime.quantization, NVIDIA Model Optimizer), "
           "then build the quantized file";
  }
  if (precision == Precision::bf16 && tensorrt_major < kFirstWithBf16)
    return fmt::format("TensorRT {} does not compute in BF16; build it with --fp16", tensorrt_major);
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
  const std::int32_t unit = unit_of(version);
  return fmt::format("{}.{}.{}", version / unit, version % unit / 100, version % 100);
}

int major_of(std::int32_t version) { return version / unit_of(version); }

Result<std::vector<std::int64_t>> resolve_shape(const std::string& name,
                                                const std::vector<std::int64_t>& dims, int image_size) {
  std::vector<std::int64_t> resolved = dims;
  if (!resolved.empty() && resolved.front() < 0) resolved.front() = 1;
  const auto is_open = [](std::int64_t dim) { return dim < 0; };
  const auto open = std::count_if(resolved.begin(), resolved.end(), is_open);
  const bool is_picture = resolved.size() == 3 || resolved.size() == 4;
  if (open > 0 && !(is_picture && open <= 2))
    return failure(fmt::format("input {} has a dynamic shape", name),
                   fmt::format("an image size does not determine {}",
                               TensorSpec{"", ElementType::unknown, dims, {}}.describe()),
                   "export the model with fixed shapes");
  std::replace_if(resolved.begin(), resolved.end(), is_open, std::int64_t{image_size});
  return resolved;
}

}  // namespace headroom::tensorrt
