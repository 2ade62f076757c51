// Builds an engine from an ONNX model, and writes the engine and its record.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/tensorrt/device_memory.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/engine_builder_plugin.h"
#include "inference/tensorrt/library.h"
#include "inference/tensorrt/messages.h"
#include "types/device_name.h"
#if __has_include(<NvOnnxParser.h>)
#include <NvOnnxParser.h>
#define HEADROOM_HAS_ONNX_PARSER
#endif

namespace headroom::tensorrt {
namespace {
namespace fs = std::filesystem;

// TensorRT 8 does not report its progress.
#if NV_TENSORRT_MAJOR >= 10
class Progress final : public nvinfer1::IProgressMonitor {
#else
class Progress final {
#endif
 public:
  explicit Progress(const hr_engine_request& request) : request_(request) {}
#if NV_TENSORRT_MAJOR >= 10
  void phaseStart(char const* phase, char const* /*parent*/, int32_t /*steps*/) noexcept override {
    report(phase);
  }
  bool stepComplete(char const* phase, int32_t /*step*/) noexcept override {
    report(phase);
    return true;
  }
  void phaseFinish(char const* /*phase*/) noexcept override {}
#endif
  void report(const char* text) const noexcept {
    if (request_.progress != nullptr)
      request_.progress(request_.progress_context, text == nullptr ? "" : text);
  }

 private:
  const hr_engine_request& request_;
};

EngineSettings settings_of(const hr_engine_request& request) {
  return {std::string(name_of(static_cast<Precision>(request.precision))), request.image_size,
          Bytes{request.workspace_bytes}};
}

// True if the engine file exists and matches the request. Throws Failure if it exists and does not match.
bool matching_engine_exists(const hr_engine_request& request, const EngineMachine& here,
                            const FileState& model) {
  const fs::path engine = request.engine;
  std::error_code code;
  if (request.force != 0 || !fs::exists(engine, code)) return false;
  const auto record = value_or_throw(read_record(engine));
  std::string why;
  if (!record)
    why = "it has no record (.json), so Headroom did not build it";
  else if (auto incompatible = why_incompatible(*record, here))
    why = std::move(*incompatible);
  else if (auto stale = value_or_throw(why_stale(*record, engine)))
    why = std::move(*stale);
  else if (record->model.fingerprint != model.fingerprint)
    why = fmt::format("it was built from another model, {}", record->model_path);
  else if (record->settings != settings_of(request))
    why = fmt::format(
        "it was built with other settings ({}, image size {}, workspace {})", record->settings.precision,
        record->settings.image_size,
        record->settings.workspace > Bytes{} ? format_bytes(record->settings.workspace) : "unlimited");
  if (why.empty()) return true;
  throw failed("{} already exists: {}; add --force to replace it, or --out to write another file",
               engine.string(), why);
}

#ifdef HEADROOM_HAS_ONNX_PARSER
// The network points to weights that the parser owns, so the parser must live until the engine is built.
Owned<nvonnxparser::IParser> parse(Library& library, nvinfer1::INetworkDefinition& network,
                                   const std::string& model) {
  Owned<nvonnxparser::IParser> parser(
      static_cast<nvonnxparser::IParser*>(library.make_onnx_parser(network, NV_ONNX_PARSER_VERSION)));
  if (parser->parseFromFile(model.c_str(), static_cast<int>(nvinfer1::ILogger::Severity::kWARNING)))
    return parser;
  const std::string logged = library.logger().take_errors();
  if (parser->getNbErrors() == 0)
    throw failed("TensorRT {} cannot read the model: {}", library.version(),
                 logged.empty() ? "no reason given" : logged);
  const nvonnxparser::IParserError* error = parser->getError(0);
  std::string where;
  if (error->node() >= 0) where = fmt::format(" (node {})", error->node());
  throw failed("TensorRT {} cannot read the model: {}{}", library.version(),
               error->desc() == nullptr ? logged : plugin::without_source_places(cause_of(error->desc())),
               where);
}
#else
std::nullptr_t parse(Library&, nvinfer1::INetworkDefinition&, const std::string&) {
  throw unavailable(
      "this plug-in cannot read ONNX, because it was built without NvOnnxParser.h; build Headroom "
      "with that header next to NvInfer.h");
}
#endif

bool is_quantized(const nvinfer1::INetworkDefinition& network) {
  for (int32_t i = 0; i < network.getNbLayers(); ++i) {
    const nvinfer1::LayerType type = network.getLayer(i)->getType();
    if (type == nvinfer1::LayerType::kQUANTIZE || type == nvinfer1::LayerType::kDEQUANTIZE) return true;
  }
  return false;
}

// Version 8 reads ONNX only into networks whose shapes contain the batch; others have no other networks.
#if NV_TENSORRT_MAJOR < 10
constexpr std::uint32_t kNetworkFlags =
    1U << static_cast<std::uint32_t>(nvinfer1::NetworkDefinitionCreationFlag::kEXPLICIT_BATCH);
#else
constexpr std::uint32_t kNetworkFlags = 0;
#endif

void set_precision(nvinfer1::IBuilderConfig& config, Precision precision) {
#if NV_TENSORRT_MAJOR < 11
#pragma GCC diagnostic push
// The flags are deprecated since 10.12, but versions 8 and 10 have no other API.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  using Flag = nvinfer1::BuilderFlag;
  if (!needs_flag(precision, NV_TENSORRT_MAJOR)) return;
  if (precision == Precision::fp16) config.setFlag(Flag::kFP16);
  if (precision == Precision::int8) config.setFlag(Flag::kINT8);
#if NV_TENSORRT_MAJOR == 10
  if (precision == Precision::bf16) config.setFlag(Flag::kBF16);
#endif
#pragma GCC diagnostic pop
#else
  (void)config, (void)precision;  // strongly typed networks use the model's types: why_not()
#endif
}

void limit_workspace(nvinfer1::IBuilderConfig& config, std::int64_t bytes) {
  if (bytes <= 0) return;
  config.setMemoryPoolLimit(nvinfer1::MemoryPoolType::kWORKSPACE, static_cast<std::size_t>(bytes));
#if HEADROOM_TENSORRT_VERSION >= 806
  config.setMemoryPoolLimit(nvinfer1::MemoryPoolType::kTACTIC_DRAM, static_cast<std::size_t>(bytes));
#endif
}

// Adds one fixed shape for each input to the profile. Returns the resulting inputs as text.
std::vector<std::string> resolve_inputs(nvinfer1::INetworkDefinition& network,
                                        nvinfer1::IOptimizationProfile& profile, int image_size,
                                        bool& used_size) {
  std::vector<std::string> texts;
  used_size = false;
  for (int32_t i = 0; i < network.getNbInputs(); ++i) {
    const nvinfer1::ITensor& input = *network.getInput(i);
    if (input.isShapeTensor())
      throw failed(
          "input {} is a shape tensor, whose value Headroom cannot "
          "choose; export the model with fixed shapes",
          input.getName());
    nvinfer1::Dims dims = input.getDimensions();
    const std::vector<std::int64_t> declared(dims.d, dims.d + std::max(dims.nbDims, 0));
    const auto resolved = value_or_throw(resolve_shape(input.getName(), declared, image_size));
    for (std::size_t d = 0; d < resolved.size(); ++d) {
      used_size = used_size || (d > 0 && declared[d] < 0);
      dims.d[d] = static_cast<Dim>(resolved[d]);
    }
    if (resolved != declared)
      for (const auto which : {nvinfer1::OptProfileSelector::kMIN, nvinfer1::OptProfileSelector::kOPT,
                               nvinfer1::OptProfileSelector::kMAX})
        if (!profile.setDimensions(input.getName(), which, dims))
          throw failed("TensorRT rejects shape {} for input {}", dims_text(dims), input.getName());
    texts.push_back(fmt::format("{} {}", input.getName(),
                                TensorSpec{"", element_type_of(input.getType()), resolved, {}}.describe()));
  }
  return texts;
}

Failure build_failure(Library& library, const GpuAllocator& allocator) {
  Failure failure = library.failure_of(fmt::format("TensorRT {} built no engine", library.version()));
  if (const std::string fault = allocator.fault(); !fault.empty())
    return {HR_ERROR_FAILED, fmt::format("{}; {}", failure.message, fault)};
  const MemoryAccount& account = allocator.account();
  if (account.figures().refused == 0) return failure;
  // When no tactic got its memory, TensorRT reports "Could not find any implementation for node …".
  return {HR_ERROR_OUT_OF_MEMORY, fmt::format("{}; {}; use a smaller --workspace, or raise the limit",
                                              failure.message, account.refusal_text())};
}

// Without `force`, an existing engine is never replaced. If it matches the request, the function does
// nothing. Otherwise it throws a Failure, which says why the engine does not match: it is incompatible,
// stale, built with other settings, or of unknown origin. All other errors are Failures, too.
void build_engine(Library& library, const hr_engine_request& request, hr_engine_outcome& outcome) {
  const auto device = parse_device_name(request.device);
  if (!device || !device->is_cuda)
    throw unavailable("an engine needs a GPU, but the device is {}; use --device cuda:N", request.device);
  const cuda::Driver& driver = plugin::prepare_cuda(device->ordinal);
  EngineRecord record;
  record.machine = machine_here(driver, device->ordinal, library.version());
  record.model = value_or_throw(state_of(request.model));
  if (matching_engine_exists(request, record.machine, record.model)) {
    outcome.already_built = 1;
    return;
  }
  GpuAllocator allocator(driver, device->ordinal);
  Progress progress(request);
  const auto builder = library.make_builder();
  builder->setGpuAllocator(&allocator);
  const Owned<nvinfer1::INetworkDefinition> network(builder->createNetworkV2(kNetworkFlags));
  if (!network) throw library.failure_of("TensorRT cannot create a network");
  progress.report("reading the model");
  [[maybe_unused]] const auto parser = parse(library, *network, request.model);

  const auto precision = static_cast<Precision>(request.precision);
  if (const auto why = why_not(precision, NV_TENSORRT_MAJOR, is_quantized(*network)))
    throw failed("--{} is not available: {}", name_of(precision), *why);
  const Owned<nvinfer1::IBuilderConfig> config(builder->createBuilderConfig());
  nvinfer1::IOptimizationProfile* profile = builder->createOptimizationProfile();  // owned by the builder
  if (!config || profile == nullptr)
    throw library.failure_of("TensorRT cannot create a builder configuration");
  set_precision(*config, precision);
  bool used_size = false;
  record.inputs = resolve_inputs(*network, *profile, request.image_size, used_size);
  config->addOptimizationProfile(profile);
  config->setProfilingVerbosity(
      nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY);  // NVTX shows the layer names
#if NV_TENSORRT_MAJOR >= 10
  config->setProgressMonitor(&progress);
#endif
  limit_workspace(*config, request.workspace_bytes);

  const Owned<nvinfer1::IHostMemory> built(builder->buildSerializedNetwork(*network, *config));
  if (!built || built->size() == 0) throw build_failure(library, allocator);
  const std::string_view bytes(static_cast<const char*>(built->data()), built->size());
  value_or_throw(write_file_atomically(request.engine, bytes));
  record.headroom_version = request.creator;
  record.created_at = request.created_at;
  record.settings = settings_of(request);
  std::error_code code;
  record.model_path = fs::absolute(request.model, code).lexically_normal().string();
  record.engine = value_or_throw(state_of(request.engine));
  value_or_throw(write_record(request.engine, record));

  const MemoryFigures figures = allocator.account().figures();
  outcome.device_peak_bytes = static_cast<int64_t>(figures.peak);
  outcome.refused = static_cast<int64_t>(figures.refused);
  if (used_size) return;
  plugin::copy_text(outcome.note,
                    fmt::format("the model has fixed inputs ({}), so the image size has no effect",
                                fmt::join(record.inputs, ", ")));
}

}  // namespace
}  // namespace headroom::tensorrt

extern "C" __attribute__((visibility("default"))) int headroom_build_engine(const hr_engine_request* request,
                                                                            hr_engine_outcome* outcome,
                                                                            hr_error* error) {
  return headroom::plugin::guarded(error, [&] {
    if (request->struct_size < sizeof(hr_engine_request) || outcome->struct_size < sizeof(hr_engine_outcome))
      throw headroom::plugin::unavailable(
          "the request comes from an older Headroom than this plug-in; install both from the same version");
    headroom::tensorrt::Library library;
    headroom::tensorrt::build_engine(library, *request, *outcome);
  });
}
