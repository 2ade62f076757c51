#include "inference/tensorrt/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/text_field.h"
#include "inference/tensorrt/gpu_allocator.h"
#include "inference/tensorrt/input_shapes.h"
#include "inference/tensorrt/machine.h"
#include "inference/tensorrt/precision.h"
#include "inference/tensorrt/tensor_types.h"
#include "model/device_name.h"
#if __has_include(<NvOnnxParser.h>)
#include <NvOnnxParser.h>
#define HEADROOM_HAS_ONNX_PARSER
#endif

namespace headroom::tensorrt {
namespace {
namespace fs = std::filesystem;

class Progress final : public nvinfer1::IProgressMonitor {
 public:
  explicit Progress(const hr_engine_order& order) : order_(order) {}
  void phaseStart(char const* phase, char const* /*parent*/, int32_t /*steps*/) noexcept override {
    say(phase);
  }
  bool stepComplete(char const* phase, int32_t /*step*/) noexcept override {
    say(phase);
    return true;
  }
  void phaseFinish(char const* /*phase*/) noexcept override {}
  void say(const char* text) const noexcept {
    if (order_.progress != nullptr) order_.progress(order_.progress_context, text == nullptr ? "" : text);
  }

 private:
  const hr_engine_order& order_;
};

EngineSettings settings_of(const hr_engine_order& order) {
  return {std::string(name_of(static_cast<Precision>(order.precision))), order.image_size,
          Bytes{order.workspace_bytes}};
}

// Whether the engine that is there is the one that is asked for; a Failure if it is another.
bool is_there(const hr_engine_order& order, const EngineMachine& here, const FileState& model) {
  const fs::path engine = order.engine;
  std::error_code code;
  if (order.force != 0 || !fs::exists(engine, code)) return false;
  const auto record = value_or_throw(read_record(engine));
  std::string why;
  if (!record)
    why = "it has no record beside it, so Headroom did not build it";
  else if (auto foreign = why_foreign(*record, here))
    why = std::move(*foreign);
  else if (auto stale = value_or_throw(why_stale(*record, engine)))
    why = std::move(*stale);
  else if (record->model.fingerprint != model.fingerprint)
    why = fmt::format("it was built of another model, {}", record->model_path);
  else if (record->settings != settings_of(order))
    why = fmt::format(
        "it was built with other settings ({}, image size {}, workspace {})", record->settings.precision,
        record->settings.image_size,
        record->settings.workspace > Bytes{} ? format_bytes(record->settings.workspace) : "not bounded");
  if (why.empty()) return true;
  throw Failure{HR_ERROR_FAILED,
                fmt::format("{} is there already: {}; give --force to replace it, or --out for another file",
                            engine.string(), why)};
}

#ifdef HEADROOM_HAS_ONNX_PARSER
// The network points at weights that the parser owns: it must stay until the engine is built.
Owned<nvonnxparser::IParser> parse(Library& library, nvinfer1::INetworkDefinition& network,
                                   const std::string& model) {
  Owned<nvonnxparser::IParser> parser(
      static_cast<nvonnxparser::IParser*>(library.make_onnx_parser(network, NV_ONNX_PARSER_VERSION)));
  if (parser->parseFromFile(model.c_str(), static_cast<int>(nvinfer1::ILogger::Severity::kWARNING)))
    return parser;
  const std::string logged = library.logger().take_errors();
  if (parser->getNbErrors() == 0)
    throw Failure{HR_ERROR_FAILED, fmt::format("TensorRT {} cannot read the model: {}", library.version(),
                                               logged.empty() ? "it gives no reason" : logged)};
  const nvonnxparser::IParserError* error = parser->getError(0);
  std::string where;
  if (error->node() >= 0) where = fmt::format(" (node {})", error->node());
  throw Failure{
      HR_ERROR_FAILED,
      fmt::format("TensorRT {} cannot read the model: {}{}", library.version(),
                  plugin::without_source_places(error->desc() == nullptr ? logged : error->desc()), where)};
}
#else
std::nullptr_t parse(Library&, nvinfer1::INetworkDefinition&, const std::string&) {
  throw Failure{HR_ERROR_UNAVAILABLE,
                "this plug-in was built without NvOnnxParser.h, which reads ONNX; build Headroom where it "
                "lies beside NvInfer.h"};
}
#endif

bool is_quantized(const nvinfer1::INetworkDefinition& network) {
  for (int32_t i = 0; i < network.getNbLayers(); ++i) {
    const nvinfer1::LayerType type = network.getLayer(i)->getType();
    if (type == nvinfer1::LayerType::kQUANTIZE || type == nvinfer1::LayerType::kDEQUANTIZE) return true;
  }
  return false;
}

void set_precision(nvinfer1::IBuilderConfig& config, Precision precision) {
#if NV_TENSORRT_MAJOR < 11
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // since 10.12, and the only way there
  using Flag = nvinfer1::BuilderFlag;
  if (needs_flag(precision, NV_TENSORRT_MAJOR))
    config.setFlag(precision == Precision::fp16   ? Flag::kFP16
                   : precision == Precision::bf16 ? Flag::kBF16
                                                  : Flag::kINT8);
#pragma GCC diagnostic pop
#else
  (void)config, (void)precision;  // the model's own types count: why_not()
#endif
}

// A profile with one shape of each input, and what the inputs then are.
std::vector<std::string> settle_inputs(nvinfer1::INetworkDefinition& network,
                                       nvinfer1::IOptimizationProfile& profile, int image_size,
                                       bool& used_size) {
  std::vector<std::string> texts;
  used_size = false;
  for (int32_t i = 0; i < network.getNbInputs(); ++i) {
    const nvinfer1::ITensor& input = *network.getInput(i);
    if (input.isShapeTensor())
      throw Failure{HR_ERROR_FAILED,
                    fmt::format("input {} is the shape of another, which Headroom cannot choose; export the "
                                "model with fixed shapes",
                                input.getName())};
    nvinfer1::Dims dims = input.getDimensions();
    const std::vector<std::int64_t> open(dims.d, dims.d + std::max(dims.nbDims, 0));
    const auto settled = value_or_throw(settle_shape(input.getName(), open, image_size));
    for (std::size_t d = 0; d < settled.size(); ++d) {
      used_size = used_size || (d > 0 && open[d] < 0);
      dims.d[d] = settled[d];
    }
    if (settled != open)
      for (const auto which : {nvinfer1::OptProfileSelector::kMIN, nvinfer1::OptProfileSelector::kOPT,
                               nvinfer1::OptProfileSelector::kMAX})
        if (!profile.setDimensions(input.getName(), which, dims))
          throw Failure{HR_ERROR_FAILED, fmt::format("TensorRT takes no shape {} for input {}",
                                                     dims_text(dims), input.getName())};
    texts.push_back(fmt::format("{} {}", input.getName(),
                                TensorSpec{"", element_type_of(input.getType()), settled, {}}.describe()));
  }
  return texts;
}

Failure build_failure(Library& library, const GpuAllocator& allocator) {
  Failure failure = library.failure_of("TensorRT builds no engine of it");
  if (const std::string fault = allocator.fault(); !fault.empty())
    return {HR_ERROR_FAILED, fmt::format("{}; {}", failure.message, fault)};
  const MemoryAccount& account = allocator.account();
  if (account.figures().refused == 0) return failure;
  // "Could not find any implementation for node …" is what it says when no tactic got its memory.
  return {HR_ERROR_OUT_OF_MEMORY, fmt::format("{}; {}; give it a smaller --workspace, or a higher limit",
                                              failure.message, account.refusal_text())};
}

}  // namespace

void build_engine(Library& library, const hr_engine_order& order, hr_engine_outcome& outcome) {
  const auto device = parse_device_name(order.device);
  if (!device || !device->is_cuda)
    throw Failure{
        HR_ERROR_UNAVAILABLE,
        fmt::format("an engine is built for a GPU, not for {}; give --device cuda:N", order.device)};
  const cuda::Driver& driver = plugin::prepare_cuda(device->ordinal);
  EngineRecord record;
  record.machine = machine_here(driver, device->ordinal, library.version());
  record.model = value_or_throw(state_of(order.model));
  if (is_there(order, record.machine, record.model)) {
    outcome.was_there = 1;
    return;
  }
  GpuAllocator allocator(driver, device->ordinal);
  Progress progress(order);
  const auto builder = library.make_builder();
  builder->setGpuAllocator(&allocator);
  const Owned<nvinfer1::INetworkDefinition> network(builder->createNetworkV2(0));
  if (!network) throw library.failure_of("TensorRT makes no network");
  progress.say("reading the model");
  [[maybe_unused]] const auto parser = parse(library, *network, order.model);

  const auto precision = static_cast<Precision>(order.precision);
  if (const auto why = why_not(precision, NV_TENSORRT_MAJOR, is_quantized(*network)))
    throw Failure{HR_ERROR_FAILED, fmt::format("--{} cannot be had: {}", name_of(precision), *why)};
  const Owned<nvinfer1::IBuilderConfig> config(builder->createBuilderConfig());
  nvinfer1::IOptimizationProfile* profile = builder->createOptimizationProfile();  // the builder's
  if (!config || profile == nullptr) throw library.failure_of("TensorRT makes no configuration");
  set_precision(*config, precision);
  bool used_size = false;
  record.inputs = settle_inputs(*network, *profile, order.image_size, used_size);
  config->addOptimizationProfile(profile);
  config->setProfilingVerbosity(nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY);  // what NVTX shows
  config->setProgressMonitor(&progress);
  if (order.workspace_bytes > 0)
    for (const auto pool : {nvinfer1::MemoryPoolType::kWORKSPACE, nvinfer1::MemoryPoolType::kTACTIC_DRAM})
      config->setMemoryPoolLimit(pool, static_cast<std::size_t>(order.workspace_bytes));

  const Owned<nvinfer1::IHostMemory> built(builder->buildSerializedNetwork(*network, *config));
  if (!built || built->size() == 0) throw build_failure(library, allocator);
  const std::string_view bytes(static_cast<const char*>(built->data()), built->size());
  if (auto written = write_file_atomically(order.engine, bytes); !written)
    throw Failure{HR_ERROR_FAILED, written.error().sentence()};
  record.headroom_version = order.creator;
  record.created_at = order.created_at;
  record.settings = settings_of(order);
  std::error_code code;
  record.model_path = fs::absolute(order.model, code).lexically_normal().string();
  record.engine = value_or_throw(state_of(order.engine));
  if (auto written = write_record(order.engine, record); !written)
    throw Failure{HR_ERROR_FAILED, written.error().sentence()};

  const MemoryFigures figures = allocator.account().figures();
  outcome.device_peak_bytes = static_cast<int64_t>(figures.peak);
  outcome.refused = static_cast<int64_t>(figures.refused);
  if (used_size) return;
  plugin::copy_text(outcome.note, fmt::format("the model fixes its inputs ({}), so no image size was used",
                                              fmt::join(record.inputs, ", ")));
}

}  // namespace headroom::tensorrt
