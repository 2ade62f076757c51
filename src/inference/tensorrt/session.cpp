// The TensorRT plug-in: a loaded engine with its bound inputs and outputs behind the plug-in interface.
#include <NvInfer.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/text.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/signature_tables.h"
#include "inference/tensorrt/device_memory.h"
#include "inference/tensorrt/engine_file.h"
#include "inference/tensorrt/library.h"
#include "types/device_name.h"
#include "types/runtime_choices.h"

namespace headroom::tensorrt {
namespace {
namespace fs = std::filesystem;

// Returns the ordinal of the requested device. Throws Failure if a setting is not supported.
unsigned check_settings(const hr_settings& settings) {
  const std::string name = settings.device == nullptr ? "cpu" : settings.device;
  const auto device = parse_device_name(name);
  if (!device || !device->is_cuda)
    throw unavailable("TensorRT runs on GPUs only, not on {}; use --device cuda:N", name);
  // `threads` is ignored, because it may be set for all models. The other settings are set per model, so
  // those that do not apply are rejected.
  const std::pair<bool, const char*> unsupported[] = {
      {settings.conv_search != 0 || settings.conv_small_workspace != 0,
       "TensorRT chose the algorithms and their workspace when the engine was built; omit the settings "
       "convolutions and workspace, or build another engine with --workspace"},
      {settings.precision > static_cast<int32_t>(headroom::Precision::fp32),
       "an engine computes in the types that it was built with; build it with headroom build-engine --fp16 "
       "or "
       "--bf16, and omit --precision"},
      {settings.mapped != 0, "TensorRT copies an engine's weights to the GPU; omit mapped=on"},
      {settings.arena == 0 || settings.arena_same_as_requested != 0,
       "TensorRT has no arena; omit arena and extend"},
      {settings.memory_pattern == 0 || settings.prepacking == 0 || settings.spinning == 0 ||
           settings.graph_level != kAllGraphLevels,
       "memory patterns, prepacking, spinning and graph levels are settings of ONNX Runtime; omit pattern, "
       "prepack, spinning and graph"}};
  for (const auto& [is_set, why] : unsupported)
    if (is_set) throw Failure{HR_ERROR_FAILED, why};
  return device->ordinal;
}

// The engine file for `path`: the path itself, or the engine that was built from this ONNX model.
fs::path engine_of(const std::string& path) {
  if (to_lower(fs::path(path).extension().string()) != ".onnx") return path;
  fs::path engine = engine_path(path);
  std::error_code code;
  if (fs::exists(engine, code)) return engine;
  throw failed(
      "TensorRT needs an engine, but none was built from this model; "
      "build one with: headroom build-engine {}",
      shell_word(path));
}

std::size_t bytes_of(const std::vector<std::int64_t>& dims, ElementType type) {
  return static_cast<std::size_t>(element_count(dims)) * size_of(type);
}

nvinfer1::Dims to_dims(const hr_tensor& tensor) {
  nvinfer1::Dims dims{};
  dims.nbDims = std::min(tensor.rank, static_cast<int32_t>(nvinfer1::Dims::MAX_DIMS));
  for (int32_t i = 0; i < dims.nbDims; ++i) dims.d[i] = static_cast<Dim>(tensor.dims[i]);
  return dims;
}

}  // namespace

// One input or output, with its device memory and its pinned memory.
struct BoundTensor {
  TensorSpec spec;       // from the engine; -1: dynamic
  bool on_host = false;  // TensorRT reads or writes it in host memory (shape values)
  nvinfer1::Dims dims{};
  std::vector<std::int64_t> shape;  // in the last run
  std::uint64_t device = 0;
  std::size_t device_bytes = 0, bytes = 0;
  std::unique_ptr<plugin::PinnedMemory> staging;  // only of outputs
  std::unique_ptr<plugin::HostInput> host;        // only of bound inputs in device memory
  bool is_bound = false;                          // only of inputs
};

// Receives the shape of an output whose size depends on the data (results of NMS, for example). Its memory
// has the largest possible size.
class ShapeReceiver final : public nvinfer1::IOutputAllocator {
 public:
  explicit ShapeReceiver(BoundTensor& tensor) : tensor_(tensor) {}
#if NV_TENSORRT_MAJOR >= 10
  void* reallocateOutputAsync(char const* /*name*/, void* /*memory*/, uint64_t size, uint64_t /*alignment*/,
                              cudaStream_t /*stream*/) override {
    return memory_for(size);
  }
#else
  void* reallocateOutput(char const* /*name*/, void* /*memory*/, uint64_t size,
                         uint64_t /*alignment*/) noexcept override {
    return memory_for(size);
  }
#endif
  void notifyShape(char const* /*name*/, nvinfer1::Dims const& dims) noexcept override {
    const auto rank =
        std::min<std::size_t>(static_cast<std::size_t>(std::max(dims.nbDims, 0)), tensor_.shape.size());
    std::copy_n(dims.d, rank, tensor_.shape.begin());
    tensor_.bytes = bytes_of(tensor_.shape, tensor_.spec.type);
  }

 private:
  void* memory_for(std::uint64_t size) const noexcept {
    return size <= tensor_.device_bytes ? reinterpret_cast<void*>(tensor_.device) : nullptr;
  }
  BoundTensor& tensor_;
};

}  // namespace headroom::tensorrt

using namespace headroom::tensorrt;  // because the C interface declares hr_session outside the namespace
using headroom::ElementType;
namespace plugin = headroom::plugin;

// The opaque type of the plug-in interface: a loaded engine with its bound inputs and outputs. One run has
// these steps, in one stream with one wait at the end: copy the inputs from pinned memory to the device, run
// the engine's kernels (or their captured graph), copy the outputs to pinned memory. All members throw
// plugin::Failure.
struct hr_session {
 public:
  hr_session(std::shared_ptr<Library> library, const std::string& path, const hr_settings& settings);
  ~hr_session();
  hr_session(const hr_session&) = delete;
  hr_session& operator=(const hr_session&) = delete;

  void describe(hr_description& description) const { tables_.fill(description); }
  void bind_input(int32_t index, const hr_tensor& tensor);
  void run();
  hr_tensor output(int32_t index);
  hr_memory_stats memory_stats() const;
  // There is nothing to trim: each run uses all memory of its session.
  void trim() {}
  hr_placement placement() const { return {sizeof(hr_placement), engine_->getNbLayers(), 0, {}}; }
  std::int64_t device_time_ns() const { return device_.last_run_ns(); }

 private:
  void deserialize(const std::string& path);
  void read_signature();
  void make_context();
  void bind_outputs();
  void reserve(BoundTensor& tensor, std::size_t bytes);
  void take_scratch();
  void enqueue();
  void compute();
  Failure failure_of(std::string what);

  const std::shared_ptr<Library> library_;
  plugin::CudaDevice device_;
  GpuAllocator allocator_;
  const std::shared_ptr<SharedScratch> scratch_;
  Owned<nvinfer1::IRuntime> runtime_;
  Owned<nvinfer1::ICudaEngine> engine_;
  std::vector<BoundTensor> inputs_, outputs_;
  std::vector<std::unique_ptr<ShapeReceiver>> receivers_;
  Owned<nvinfer1::IExecutionContext> context_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  headroom::inference::SignatureTables tables_;
  plugin::DeviceGraph graph_;
  const bool wants_graph_;
  std::uint64_t scratch_bytes_ = 0, scratch_generation_ = 0;
  bool outputs_bound_ = false, has_run_ = false;
};

hr_session::hr_session(std::shared_ptr<Library> library, const std::string& path, const hr_settings& settings)
    : library_(std::move(library)),
      device_(check_settings(settings)),
      allocator_(device_.driver(), device_.ordinal()),
      scratch_(SharedScratch::of(device_.driver(), device_.ordinal())),
      graph_(device_),
      wants_graph_(settings.device_graph != 0) {
  library_->logger().take_errors();  // discard errors of an earlier failure
  const fs::path engine = engine_of(path);
  require_compatible_engine(engine, machine_here(device_.driver(), device_.ordinal(), library_->version()));
  deserialize(engine.string());
  read_signature();
  make_context();
}

hr_session::~hr_session() {
  // Members are destroyed in reverse order: context, engine, runtime, then the memory that they used.
  device_.try_to_make_current();
  graph_.forget();
  context_.reset();
  for (std::vector<BoundTensor>* list : {&inputs_, &outputs_})
    for (const BoundTensor& tensor : *list)
      if (tensor.device != 0) allocator_.account().free(tensor.device);
}

Failure hr_session::failure_of(std::string what) {
  if (const std::string fault = allocator_.fault(); !fault.empty()) {
    library_->logger().take_errors();
    return {HR_ERROR_FAILED, fmt::format("{}: {}", what, fault)};
  }
  if (allocator_.account().figures().refused == 0) return library_->failure_of(std::move(what));
  library_->logger().take_errors();
  return {HR_ERROR_OUT_OF_MEMORY, fmt::format("{}: {}", what, allocator_.account().refusal_text())};
}

void hr_session::deserialize(const std::string& path) {
  const MappedFile file = value_or_throw(MappedFile::open(path));
  EngineParts parts = parts_of(file.bytes());
  metadata_ = std::move(parts.metadata);
  runtime_ = library_->make_runtime();
  runtime_->setGpuAllocator(&allocator_);
  engine_.reset(runtime_->deserializeCudaEngine(parts.engine.data(), parts.engine.size()));
  if (!engine_ && allocator_.account().figures().refused > 0)
    throw failure_of("memory for its weights was refused");
  if (!engine_ && !allocator_.fault().empty()) throw failure_of("cannot allocate memory for its weights");
  if (!engine_)
    throw failure_of(
        fmt::format("TensorRT {} rejects this engine (damaged, or built for another version or GPU)",
                    library_->version()));
}

void hr_session::read_signature() {
#if NV_TENSORRT_MAJOR < 10
  if (engine_->hasImplicitBatchDimension())
    throw failed("its shapes omit the batch; build it again from ONNX: headroom build-engine MODEL.onnx");
#endif
  for (int32_t i = 0; i < engine_->getNbIOTensors(); ++i) {
    const char* name = engine_->getIOTensorName(i);
    BoundTensor tensor;
    tensor.spec.name = name;
    tensor.spec.type = element_type_of(engine_->getTensorDataType(name));
    const nvinfer1::Dims dims = engine_->getTensorShape(name);
    tensor.spec.dims.assign(dims.d, dims.d + std::max(dims.nbDims, 0));
    tensor.spec.dim_names.resize(tensor.spec.dims.size());
    tensor.on_host = engine_->getTensorLocation(name) == nvinfer1::TensorLocation::kHOST;
    if (tensor.spec.type == ElementType::unknown)
      throw failed(
          "its tensor {} has an unsupported type (a float of 8 bits or fewer); build "
          "the engine with inputs and outputs of float32 or float16",
          name);
    if (engine_->getTensorFormat(name) != nvinfer1::TensorFormat::kLINEAR)
      throw failed("its tensor {} has the layout {}; build the engine with row-major tensors", name,
                   engine_->getTensorFormatDesc(name));
    const bool is_input = engine_->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
    (is_input ? inputs_ : outputs_).push_back(std::move(tensor));
  }
  for (const BoundTensor& input : inputs_) tables_.add_input(input.spec);
  for (const BoundTensor& output : outputs_) tables_.add_output(output.spec);
  tables_.add_metadata(metadata_);
}

void hr_session::make_context() {
#if HEADROOM_TENSORRT_VERSION >= 1001
  scratch_bytes_ = static_cast<std::uint64_t>(std::max<std::int64_t>(engine_->getDeviceMemorySizeV2(), 0));
#else
  scratch_bytes_ = engine_->getDeviceMemorySize();
#endif
#if NV_TENSORRT_MAJOR >= 10
  context_.reset(
      engine_->createExecutionContext(nvinfer1::ExecutionContextAllocationStrategy::kUSER_MANAGED));
#else
  context_.reset(engine_->createExecutionContextWithoutDeviceMemory());
#endif
  if (!context_) throw failure_of("TensorRT cannot create an execution context for this engine");
  // Layer names suffice, even if the engine was built with more detailed profiling.
  context_->setNvtxVerbosity(nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY);
  const auto lock = scratch_->lock();
  take_scratch();
}

void hr_session::reserve(BoundTensor& tensor, std::size_t bytes) {
  if (tensor.on_host || (tensor.device != 0 && bytes <= tensor.device_bytes)) return;
  if (tensor.device != 0) allocator_.account().free(tensor.device);
  tensor.device_bytes = 0;
  tensor.device = allocator_.account().allocate(std::max<std::size_t>(bytes, 1));
  if (tensor.device == 0) throw failure_of(fmt::format("memory for tensor {} was refused", tensor.spec.name));
  tensor.device_bytes = bytes;
}

void hr_session::bind_input(int32_t index, const hr_tensor& tensor) {
  BoundTensor& input = inputs_[plugin::checked_index("input", index, inputs_.size())];
  std::vector<std::int64_t> shape(tensor.dims, tensor.dims + std::max(tensor.rank, 0));
  const auto given = static_cast<ElementType>(tensor.element_type);
  if (given != input.spec.type ||
      tensor.bytes != plugin::checked_bytes(input.spec.name, tensor, headroom::size_of(given)))
    throw failed("input {} needs {}, but got {} of {} bytes", input.spec.name, input.spec.describe(),
                 headroom::TensorSpec{"", given, shape, {}}.describe(), tensor.bytes);
  device_.make_current();
  const bool is_new_shape = !input.is_bound || input.shape != shape;
  if (graph_.is_captured() && is_new_shape)
    throw failed("a captured graph accepts only one input shape; omit --capture-graph");
  const char* name = input.spec.name.c_str();
  if (is_new_shape && !context_->setInputShape(name, to_dims(tensor))) {
    const nvinfer1::Dims least = engine_->getProfileShape(name, 0, nvinfer1::OptProfileSelector::kMIN);
    const nvinfer1::Dims most = engine_->getProfileShape(name, 0, nvinfer1::OptProfileSelector::kMAX);
    library_->logger().take_errors();
    throw failed(
        "input {} of this engine accepts {} to {}, but got {}; use "
        "the engine's --imgsz, or rebuild the engine",
        name, dims_text(least), dims_text(most), headroom::TensorSpec{"", given, shape, {}}.describe());
  }
  reserve(input, tensor.bytes);
  if (!input.on_host) {
    if (!input.host) input.host = std::make_unique<plugin::HostInput>(device_);
    input.host->bind(tensor.data, tensor.bytes);
  }
  void* const address = input.on_host ? tensor.data : reinterpret_cast<void*>(input.device);
  if (!context_->setInputTensorAddress(name, address))
    throw failure_of(fmt::format("TensorRT rejects input {}", name));
  input.shape = std::move(shape);
  input.is_bound = true;
  outputs_bound_ = outputs_bound_ && !is_new_shape;
}

void hr_session::bind_outputs() {
  receivers_.clear();
  for (BoundTensor& output : outputs_) {
    const char* name = output.spec.name.c_str();
    const nvinfer1::Dims dims = context_->getTensorShape(name);
    output.shape.assign(dims.d, dims.d + std::max(dims.nbDims, 0));
    const bool is_dynamic =
        std::any_of(output.shape.begin(), output.shape.end(), [](auto dim) { return dim < 0; });
    const std::size_t capacity =
        is_dynamic ? static_cast<std::size_t>(std::max<std::int64_t>(context_->getMaxOutputSize(name), 0))
                   : bytes_of(output.shape, output.spec.type);
    output.bytes = is_dynamic ? 0 : capacity;
    reserve(output, capacity);
    if (!output.staging) output.staging = std::make_unique<plugin::PinnedMemory>(device_);
    void* const staging = output.staging->need(capacity);
    if (is_dynamic && wants_graph_)
      throw failed(
          "the size of output {} is known only during a run, so the "
          "run cannot be captured; omit --capture-graph",
          name);
    bool taken = false;
    if (is_dynamic) {
      receivers_.push_back(std::make_unique<ShapeReceiver>(output));
      taken = context_->setOutputAllocator(name, receivers_.back().get());
    } else {
      taken =
          context_->setTensorAddress(name, output.on_host ? staging : reinterpret_cast<void*>(output.device));
    }
    if (!taken) throw failure_of(fmt::format("TensorRT rejects the memory of output {}", name));
  }
  outputs_bound_ = true;
}

// The caller holds the lock of the scratch memory.
void hr_session::take_scratch() {
  if (scratch_bytes_ == 0) return;
  scratch_->need(scratch_bytes_);
  if (scratch_->generation() == scratch_generation_) return;
  graph_.forget();  // it holds the old address
#if HEADROOM_TENSORRT_VERSION >= 1001
  context_->setDeviceMemoryV2(scratch_->data(), static_cast<std::int64_t>(scratch_->bytes()));
#else
  context_->setDeviceMemory(scratch_->data());
#endif
  scratch_generation_ = scratch_->generation();
}

void hr_session::enqueue() {
  if (!context_->enqueueV3(static_cast<cudaStream_t>(device_.stream())))
    throw failure_of("TensorRT cannot run this engine");
}

void hr_session::compute() {
  // The first run is never captured: it loads kernels and prepares for the shapes, which is not allowed in
  // a capture.
  if (!wants_graph_ || !has_run_) return enqueue();
  if (!graph_.is_captured()) graph_.capture([&] { enqueue(); });
  graph_.launch();
}

void hr_session::run() {
  const auto unbound =
      std::count_if(inputs_.begin(), inputs_.end(), [](const auto& input) { return !input.is_bound; });
  if (unbound > 0) throw failed("{} of its inputs are not bound", unbound);
  const auto lock = scratch_->lock();
  device_.make_current();
  if (!outputs_bound_) bind_outputs();
  take_scratch();
  device_.begin_run();
  for (const BoundTensor& input : inputs_)
    if (!input.on_host) input.host->copy_to(input.device);
  compute();
  for (const BoundTensor& output : outputs_)
    if (!output.on_host) device_.copy_out(output.staging->data(), output.device, output.bytes);
  device_.end_run();
  has_run_ = true;
}

hr_tensor hr_session::output(int32_t index) {
  if (!has_run_) throw failed("the model has not run yet");
  const BoundTensor& output = outputs_[plugin::checked_index("output", index, outputs_.size())];
  return {output.staging->data(), output.bytes, static_cast<int32_t>(output.spec.type),
          static_cast<int32_t>(output.shape.size()), output.shape.data()};
}

hr_memory_stats hr_session::memory_stats() const {
  const MemoryFigures figures = allocator_.account().figures();
  return {sizeof(hr_memory_stats),
          static_cast<int64_t>(figures.live),
          static_cast<int64_t>(figures.live),
          static_cast<int64_t>(figures.peak),
          static_cast<int64_t>(figures.allocations),
          -1};
}

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  // .onnx stands for the engine that was built from it and lies next to it.
  static constexpr std::array<const char*, 4> kExtensions{".engine", ".plan", ".onnx", nullptr};
  static const hr_backend kBackend = plugin::table_of<Library>("tensorrt", kExtensions.data());
  return &kBackend;
}
