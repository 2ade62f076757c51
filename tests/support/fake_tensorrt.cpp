// A fake libnvinfer, built from TensorRT's public headers only. Its "engines" and "ONNX models" are lines of
// text (fake_tensorrt_model.h). It allocates memory as they say, and writes each relevant call in order to
// the file FAKE_TENSORRT_LOG. It fails if the plug-in violates the sequence of calls that the headers
// require. It computes nothing, but on a real driver it copies the first input to the first output.
//
// Environment: FAKE_TENSORRT_VERSION (the version that the library reports).
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fake_tensorrt_stubs.h"
#include "support/fake_tensorrt_model.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using namespace fake_tensorrt;

bool has_plugins = false;  // set when libnvinfer_plugin has registered its plug-ins

// An object of TensorRT whose functions Work implements.
template <class Interface, class Work>
struct Object final : Interface {
  template <class... Arguments>
  explicit Object(Arguments&&... arguments) : work(std::forward<Arguments>(arguments)...) {
    this->mImpl = &work;
  }
  ~Object() noexcept override = default;
  Work work;
};

// --- running

struct ContextWork final : apiv::StubVExecutionContext {
  explicit ContextWork(const Model& of) : model(of) {}
  ~ContextWork() noexcept override { note("~context"); }
  const Model& model;
  std::map<std::string, Dims> shapes;
  std::map<std::string, const void*> addresses;
  std::map<std::string, IOutputAllocator*> receivers;
  std::int64_t scratch = -1;

  bool setInputShape(char const* name, Dims const& dims) noexcept override {
    note("setInputShape", name, text_of(dims));
    const Tensor* tensor = model.find(name);
    if (tensor == nullptr || dims.nbDims != tensor->dims.nbDims) return false;
    for (int32_t i = 0; i < dims.nbDims; ++i)
      if (tensor->dims.d[i] >= 0 && tensor->dims.d[i] != dims.d[i]) return false;
    shapes[name] = dims;
    return true;
  }
  Dims getTensorShape(char const* name) const noexcept override {
    const auto known = shapes.find(name);
    return known != shapes.end() ? known->second : model.find(name)->dims;
  }
  bool setTensorAddress(char const* name, void* data) noexcept override {
    note("setTensorAddress", name);
    addresses[name] = data;
    return true;
  }
  bool setInputTensorAddress(char const* name, void const* data) noexcept override {
    note("setInputTensorAddress", name);
    addresses[name] = data;
    return true;
  }
  bool setOutputAllocator(char const* name, IOutputAllocator* receiver) noexcept override {
    note("setOutputAllocator", name);
    receivers[name] = receiver;
    return true;
  }
  std::int64_t getMaxOutputSize(char const* name) const noexcept override {
    return static_cast<std::int64_t>(bytes_of(model.find(name)->dims)) * 8;
  }
  bool setNvtxVerbosity(ProfilingVerbosity verbosity) noexcept override {
    note("setNvtxVerbosity", static_cast<int>(verbosity));
    return true;
  }
  void setDeviceMemory(void* memory) noexcept override {
    note("setDeviceMemory");
    scratch = memory != nullptr ? static_cast<std::int64_t>(model.scratch) : -1;
  }
#if NV_TENSORRT_MAJOR > 10 || NV_TENSORRT_MINOR >= 1
  void setDeviceMemoryV2(void* memory, int64_t size) noexcept override {
    note("setDeviceMemoryV2", size);
    scratch = memory != nullptr ? size : -1;
  }
#endif
  // On a real driver, copies the first input to the first output.
  void copy_first(cudaStream_t stream) {
    using Copy = int (*)(std::uint64_t, std::uint64_t, std::size_t, void*);
    static const auto copy = reinterpret_cast<Copy>(::dlsym(RTLD_DEFAULT, "cuMemcpyDtoDAsync_v2"));
    if (copy == nullptr) return;
    const Tensor *from = nullptr, *to = nullptr;
    for (const Tensor& tensor : model.tensors) {
      if (tensor.is_input && from == nullptr) from = &tensor;
      if (!tensor.is_input && to == nullptr && receivers.count(tensor.name) == 0) to = &tensor;
    }
    if (from == nullptr || to == nullptr) return;
    const auto address = [&](const Tensor& tensor) {
      return reinterpret_cast<std::uint64_t>(addresses[tensor.name]);
    };
    note("copied",
         copy(address(*to), address(*from), std::min(bytes_of(from->dims), bytes_of(to->dims)), stream));
  }
  bool enqueueV3(cudaStream_t stream) noexcept override {
    for (const Tensor& tensor : model.tensors) {
      const bool received = receivers.count(tensor.name) > 0;
      if ((!received && addresses[tensor.name] == nullptr) ||
          (tensor.is_input && shapes.count(tensor.name) == 0)) {
        note("enqueueV3 without", tensor.name);
        return false;
      }
      if (!received) continue;
      Dims found = tensor.dims;
      for (int32_t i = 0; i < found.nbDims; ++i) found.d[i] = std::abs(found.d[i]);
      if (receivers[tensor.name]->reallocateOutputAsync(tensor.name.c_str(), nullptr, bytes_of(found), 256,
                                                        nullptr) == nullptr)
        return false;
      receivers[tensor.name]->notifyShape(tensor.name.c_str(), found);
    }
    copy_first(stream);
    const bool enough = model.scratch == 0 || scratch >= static_cast<std::int64_t>(model.scratch);
    note(enough ? "enqueueV3" : "enqueueV3 without scratch");
    return enough;
  }
};
using Context = Object<IExecutionContext, ContextWork>;

struct EngineWork final : apiv::StubVCudaEngine {
  EngineWork(Model of, IGpuAllocator* by, void* at) : model(std::move(of)), allocator(by), weights(at) {}
  ~EngineWork() noexcept override {
    note("~engine");
    if (weights != nullptr) allocator->deallocateAsync(weights, nullptr);
  }
  Model model;
  IGpuAllocator* allocator;
  void* weights;
  std::int32_t getNbLayers() const noexcept override { return 3; }
  std::int32_t getNbIOTensors() const noexcept override {
    return static_cast<std::int32_t>(model.tensors.size());
  }
  char const* getIOTensorName(int32_t i) const noexcept override {
    return model.tensors[static_cast<std::size_t>(i)].name.c_str();
  }
  Dims getTensorShape(char const* name) const noexcept override { return model.find(name)->dims; }
  DataType getTensorDataType(char const*) const noexcept override { return DataType::kFLOAT; }
  TensorIOMode getTensorIOMode(char const* name) const noexcept override {
    return model.find(name)->is_input ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT;
  }
  Dims getProfileShape(char const* name, int32_t, OptProfileSelector) const noexcept override {
    return model.find(name)->dims;
  }
#if NV_TENSORRT_MAJOR > 10 || NV_TENSORRT_MINOR >= 1
  std::int64_t getDeviceMemorySizeV2() const noexcept override {
    return static_cast<std::int64_t>(model.scratch);
  }
#else
  std::size_t getDeviceMemorySize() const noexcept override { return model.scratch; }
#endif
  IExecutionContext* createExecutionContext(ExecutionContextAllocationStrategy strategy) noexcept override {
    note("createExecutionContext",
         strategy == ExecutionContextAllocationStrategy::kUSER_MANAGED ? "user managed" : "its own");
    return new Context(model);
  }
};
using Engine = Object<ICudaEngine, EngineWork>;

struct RuntimeWork final : apiv::StubVRuntime {
  explicit RuntimeWork(ILogger* to) : logger(to) {}
  ~RuntimeWork() noexcept override { note("~runtime"); }
  ILogger* logger;
  IGpuAllocator* allocator = nullptr;
  void setGpuAllocator(IGpuAllocator* given) noexcept override {
    note("setGpuAllocator");
    allocator = given;
  }
  ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept override {
    note("deserializeCudaEngine");
    const std::string text(static_cast<const char*>(blob), size);
    if (text.rfind("ftrt\n", 0) != 0) {
      logger->log(ILogger::Severity::kERROR, "IRuntime::deserializeCudaEngine: the magic tag does not match");
      return nullptr;
    }
    Model model = read_model(text);
    if (!model.plugin.empty() && !(has_plugins && model.plugin == "EfficientNMS_TRT")) {
      const std::string error =
          "IPluginRegistry::getCreator: Error Code 4: API Usage Error (Cannot find plugin: " + model.plugin +
          ", version: 1, namespace:.)";
      logger->log(ILogger::Severity::kERROR, error.c_str());
      return nullptr;
    }
    void* weights = nullptr;
    if (model.weights > 0) {
      weights = allocator->allocateAsync(model.weights, 256, 0, nullptr);
      if (weights == nullptr) {
        logger->log(ILogger::Severity::kERROR, "Requested amount of GPU memory could not be allocated");
        return nullptr;
      }
    }
    return new Engine(std::move(model), allocator, weights);
  }
};
using Runtime = Object<IRuntime, RuntimeWork>;

// --- building

struct NamedTensorWork final : apiv::StubVTensor {
  explicit NamedTensorWork(const Tensor& of) : tensor(of) {}
  Tensor tensor;
  char const* getName() const noexcept override { return tensor.name.c_str(); }
  Dims getDimensions() const noexcept override { return tensor.dims; }
  DataType getType() const noexcept override { return DataType::kFLOAT; }
};
using NamedTensor = Object<ITensor, NamedTensorWork>;

class QuantizeLayer final : public ILayer {
 public:
  QuantizeLayer() { mLayer = &work_; }

 private:
  struct Work final : apiv::StubVLayer {
    LayerType getType() const noexcept override { return LayerType::kQUANTIZE; }
  };
  Work work_;
};

struct NetworkWork final : apiv::StubVNetworkDefinition {
  Model model;
  std::vector<std::unique_ptr<NamedTensor>> inputs;
  mutable QuantizeLayer quantize;
  bool has_parser = false;  // it owns the weights
  std::int32_t getNbLayers() const noexcept override { return model.quantized ? 1 : 0; }
  ILayer* getLayer(int32_t) const noexcept override { return &quantize; }
  std::int32_t getNbInputs() const noexcept override { return static_cast<std::int32_t>(inputs.size()); }
  ITensor* getInput(int32_t i) const noexcept override { return inputs[static_cast<std::size_t>(i)].get(); }
};
using Network = Object<INetworkDefinition, NetworkWork>;

struct ProfileWork final : apiv::StubVOptimizationProfile {
  bool setDimensions(char const* name, OptProfileSelector select, Dims const& dims) noexcept override {
    note("setDimensions", name, static_cast<int>(select), text_of(dims));
    return true;
  }
};
using Profile = Object<IOptimizationProfile, ProfileWork>;

struct ConfigWork final : apiv::StubVBuilderConfig {
  IProgressMonitor* monitor = nullptr;
  void setFlag(BuilderFlag flag) noexcept override { note("setFlag", static_cast<int>(flag)); }
  void setMemoryPoolLimit(MemoryPoolType pool, std::size_t bytes) noexcept override {
    note("setMemoryPoolLimit", static_cast<int>(pool), bytes);
  }
  void setProfilingVerbosity(ProfilingVerbosity verbosity) noexcept override {
    note("setProfilingVerbosity", static_cast<int>(verbosity));
  }
  std::int32_t addOptimizationProfile(IOptimizationProfile const*) noexcept override {
    note("addOptimizationProfile");
    return 0;
  }
  void setProgressMonitor(IProgressMonitor* given) noexcept override { monitor = given; }
};
using Config = Object<IBuilderConfig, ConfigWork>;

struct MemoryWork final : apiv::StubVHostMemory {
  explicit MemoryWork(std::string of) : text(std::move(of)) {}
  std::string text;
  void* data() const noexcept override { return const_cast<char*>(text.data()); }
  std::size_t size() const noexcept override { return text.size(); }
};
using Memory = Object<IHostMemory, MemoryWork>;

struct BuilderWork final : apiv::StubVBuilder {
  explicit BuilderWork(ILogger* to) : logger(to) {}
  ILogger* logger;
  IGpuAllocator* allocator = nullptr;
  std::vector<std::unique_ptr<Profile>> profiles;
  void setGpuAllocator(IGpuAllocator* given) noexcept override { allocator = given; }
  IBuilderConfig* createBuilderConfig() noexcept override { return new Config; }
  INetworkDefinition* createNetworkV2(NetworkDefinitionCreationFlags flags) noexcept override {
    note("createNetworkV2", flags);
    return new Network;
  }
  IOptimizationProfile* createOptimizationProfile() noexcept override {
    profiles.push_back(std::make_unique<Profile>());
    return profiles.back().get();
  }
  IHostMemory* buildSerializedNetwork(INetworkDefinition& network, IBuilderConfig& config) noexcept override {
    note("buildSerializedNetwork");
    const NetworkWork& work = static_cast<Network&>(network).work;
    if (!work.has_parser) {
      note("buildSerializedNetwork of weights that are gone");
      return nullptr;
    }
    const Model& model = work.model;
    IProgressMonitor* monitor = static_cast<Config&>(config).work.monitor;
    monitor->phaseStart("Timing tactics", nullptr, 1);
    void* trial = model.trial > 0 ? allocator->allocateAsync(model.trial, 256, 0, nullptr) : nullptr;
    monitor->stepComplete("Timing tactics", 0);
    monitor->phaseFinish("Timing tactics");
    if (model.trial > 0 && trial == nullptr) {
      logger->log(ILogger::Severity::kERROR,
                  "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any "
                  "implementation for node Conv_1.\nIn computeCosts at /_src/optimizer/optimizer.cpp:4119)");
      return nullptr;
    }
    if (!model.lacks.empty()) {
      const std::string error =
          "IBuilder::buildSerializedNetwork: Error Code 6: API Usage Error (Unable to "
          "load library: " +
          model.lacks + ": " + model.lacks +
          ": cannot open shared object file: No such file or directory\nIn Impl at "
          "/_src/common/libLoader.cpp:312)";
      logger->log(ILogger::Severity::kERROR, error.c_str());
      return nullptr;
    }
    allocator->deallocateAsync(trial, nullptr);
    return new Memory("ftrt\n" + model.text);
  }
};
using Builder = Object<IBuilder, BuilderWork>;

}  // namespace

EXPORTED std::int32_t getInferLibVersion() noexcept {
  const char* told = std::getenv("FAKE_TENSORRT_VERSION");
  return told != nullptr ? std::atoi(told) : NV_TENSORRT_VERSION;
}
EXPORTED void* createInferRuntime_INTERNAL(void* logger, std::int32_t version) noexcept {
  note("createInferRuntime", version == NV_TENSORRT_VERSION ? "of the headers" : "of another version");
  return new Runtime(static_cast<ILogger*>(logger));
}
EXPORTED void* createInferBuilder_INTERNAL(void* logger, std::int32_t version) noexcept {
  note("createInferBuilder", version == NV_TENSORRT_VERSION ? "of the headers" : "of another version");
  return new Builder(static_cast<ILogger*>(logger));
}

// The parser's library passes what it read; returns the parser's error, or null.
EXPORTED const char* fake_tensorrt_read(void* network, const char* text) {
  NetworkWork& work = static_cast<Network*>(static_cast<INetworkDefinition*>(network))->work;
  work.model = read_model(text);
  work.has_parser = true;
  for (const Tensor& tensor : work.model.tensors)
    if (tensor.is_input) work.inputs.push_back(std::make_unique<NamedTensor>(tensor));
  return work.model.bad.c_str();
}
EXPORTED void fake_tensorrt_parser_ends(void* network) {
  static_cast<Network*>(static_cast<INetworkDefinition*>(network))->work.has_parser = false;
}
EXPORTED void fake_tensorrt_register_plugins() { has_plugins = true; }
