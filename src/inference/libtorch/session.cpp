// The LibTorch plug-in: a TorchScript module with its bound inputs behind the plug-in interface.
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>

#include "inference/libtorch/cuda_parts.h"
#include "inference/libtorch/module.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/signature_tables.h"
#include "ledger/device_query.h"
#include "types/device_name.h"
#include "types/runtime_choices.h"

namespace headroom::libtorch {
namespace {

// LibTorch 2.4 added autocast to half on the CPU, and autocast functions with a device argument.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
constexpr bool kHasHalfOnCpu = true;
void set_autocast(c10::DeviceType device, bool on, at::ScalarType type) {
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_enabled(device, on);
}
#else
constexpr bool kHasHalfOnCpu = false;
void set_autocast(c10::DeviceType device, bool on, at::ScalarType type) {
  if (device == c10::DeviceType::CPU) {
    if (on) at::autocast::set_autocast_cpu_dtype(type);
    at::autocast::set_cpu_enabled(on);
  } else {
    if (on) at::autocast::set_autocast_gpu_dtype(type);
    at::autocast::set_enabled(on);
  }
}
#endif

// Enables autocast on this thread while it lives: LibTorch computes float32 operators in `precision` where
// it considers that safe.
class Autocast {
 public:
  Autocast(c10::DeviceType device, Precision precision)
      : device_(device),
        is_on_(precision == Precision::fp16 || precision == Precision::bf16),
        type_(precision == Precision::fp16 ? at::kHalf : at::kBFloat16) {
    if (is_on_) set_autocast(device_, true, type_);
  }
  ~Autocast() {
    if (!is_on_) return;
    at::autocast::clear_cache();
    set_autocast(device_, false, type_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool is_on_;
  at::ScalarType type_;
};

std::unique_ptr<plugin::CudaDevice> make_device(const hr_settings& settings) {
  const std::string name = settings.device == nullptr ? "cpu" : settings.device;
  const auto device = parse_device_name(name);
  if (!device) throw failed("unknown device '{}'; use cpu or cuda:N", name);
  check_settings(settings, device->is_cuda);
  if (!device->is_cuda) return nullptr;
  require_cuda();
  return std::make_unique<plugin::CudaDevice>(device->ordinal);
}

Capabilities capabilities_of(const plugin::CudaDevice* device) {
  if (device == nullptr) return {std::nullopt, kHasHalfOnCpu};
  return {device->driver().compute_capability(device->ordinal()).first, kHasHalfOnCpu};
}

// Passes the preload library's limit on this process to the caching allocator. The allocator then releases
// its unused blocks before it requests more, and its own out-of-memory message has its own figures.
void limit_caching_allocator(const plugin::CudaDevice& device) {
  const auto figures_of =
      reinterpret_cast<ledger::DeviceFiguresFunction>(::dlsym(RTLD_DEFAULT, ledger::kDeviceFiguresSymbol));
  ledger::DeviceFigures figures;
  figures.limit = ~std::uint64_t{0};
  if (figures_of == nullptr || !figures_of(device.ordinal(), &figures, sizeof figures)) return;
  const Bytes total = device.driver().facts(device.ordinal()).total;
  if (figures.limit == ~std::uint64_t{0} || total.count <= 0) return;
  const double share = static_cast<double>(figures.limit) / static_cast<double>(total.count);
  set_memory_fraction(device.ordinal(), std::min(share, 1.0));
}

void flatten(const c10::IValue& value, const std::string& name, std::vector<std::string>* names,
             std::vector<at::Tensor>& tensors) {
  const auto part = [&](std::size_t i) { return names == nullptr ? name : fmt::format("{}_{}", name, i); };
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    for (std::size_t i = 0; i < elements.size(); ++i) flatten(elements[i], part(i), names, tensors);
  } else if (value.isList() || value.isTensorList()) {
    const auto elements = value.toListRef();
    for (std::size_t i = 0; i < elements.size(); ++i) flatten(elements[i], part(i), names, tensors);
  } else if (value.isGenericDict()) {
    std::size_t i = 0;
    for (const auto& entry : value.toGenericDict())
      flatten(entry.value(), entry.key().isString() ? entry.key().toStringRef() : part(i++), names, tensors);
  } else {
    if (names != nullptr) names->push_back(name);
    tensors.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
}

// Converts an output to what the caller reads: plain numbers, dense and row-major. Halves that autocast
// left become float32, like the outputs without autocast.
at::Tensor readable(const at::Tensor& tensor, Precision precision) {
  if (!tensor.defined() || element_type_of(tensor.scalar_type()) == ElementType::unknown) return {};
  at::Tensor plain = tensor.layout() == at::kStrided ? tensor : tensor.to_dense();
  const bool is_half = plain.scalar_type() == at::kHalf || plain.scalar_type() == at::kBFloat16;
  if (precision != Precision::fp32 && is_half) plain = plain.to(at::kFloat);
  return plain.contiguous();
}

}  // namespace

// Global state of LibTorch. The library itself is linked, so it is already loaded.
class Library {
 public:
  static constexpr const char* kTitle = "LibTorch";
  Library()
      : version_(fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH)) {
    static std::once_flag once;  // it may be called only once per process
    std::call_once(once, [] { at::set_num_interop_threads(1); });
    default_threads_ = at::get_num_threads();
  }
  const std::string& version() const { return version_; }  // version of the headers: "1.13.0"
  int default_threads() const { return default_threads_; }

  // Creates the device's context and initialises LibTorch on it. Throws plugin::Failure.
  static void prepare_device(const char* name, hr_device_facts& facts) {
    require_cuda();
    plugin::prepare_device(name, "cpu and cuda:N", facts);
    const c10::Device device(c10::DeviceType::CUDA,
                             static_cast<c10::DeviceIndex>(parse_device_name(name)->ordinal));
    at::empty({1}, at::TensorOptions().device(device));
  }

 private:
  std::string version_;
  int default_threads_ = 1;
};

// Returns the caching allocator's unused blocks to the driver at the end of a session.
struct CacheRelease {
  bool is_needed = false;
  ~CacheRelease() {
    if (is_needed) empty_caches();
  }
};

}  // namespace headroom::libtorch

using namespace headroom::libtorch;  // because the C interface declares hr_session outside the namespace
using headroom::ElementType;
using headroom::Precision;
using headroom::TensorSpec;
using headroom::inference::SignatureTables;
namespace plugin = headroom::plugin;

// The opaque type of the plug-in interface: a loaded TorchScript module with its bound inputs. All members
// throw headroom::plugin::Failure.
struct hr_session {
 public:
  hr_session(std::shared_ptr<Library> library, const std::string& path, const hr_settings& settings);
  ~hr_session() {
    if (cuda_) cuda_->try_to_make_current();
  }
  hr_session(const hr_session&) = delete;
  hr_session& operator=(const hr_session&) = delete;

  // The outputs are known only after a run, because a TorchScript file does not record them.
  void describe(hr_description& description) const {
    (tables_with_outputs_ ? *tables_with_outputs_ : tables_).fill(description);
    if (!tables_with_outputs_) description.output_count = -1;
  }
  // On the CPU, the module reads this memory directly. A module that changes its input in place therefore
  // changes the caller's memory. On a device, each run copies the memory into the input tensor.
  void bind_input(int32_t index, const hr_tensor& tensor);
  void run();
  // Has no data if the last run did not return this output, or if it is not a tensor of plain numbers.
  hr_tensor output(int32_t index) const;
  hr_memory_stats memory_stats() const;
  void trim();
  hr_placement placement() const { return {sizeof(hr_placement), -1, -1, {}}; }
  std::int64_t device_time_ns() const { return cuda_ ? cuda_->last_run_ns() : -1; }

 private:
  void learn_outputs(const std::vector<std::string>& names);
  void call();
  void run_on_device();
  [[noreturn]] void fail(std::string_view message) const;

  CacheRelease cache_release_;  // declared first: the members below hold blocks
  const std::shared_ptr<Library> library_;
  const std::unique_ptr<plugin::CudaDevice> cuda_;  // absent: the CPU
  const c10::Device device_;
  const Precision precision_;
  const int threads_;
  const bool times_convolutions_;
  std::optional<c10::Stream> stream_;
  LoadedModule loaded_;
  torch::jit::Function* forward_ = nullptr;

  std::vector<at::Tensor> inputs_;                               // on a device: copies of the bound memory
  std::vector<std::unique_ptr<plugin::HostInput>> host_inputs_;  // only with a device

  torch::jit::Stack stack_;
  std::vector<at::Tensor> outputs_;
  std::vector<plugin::PinnedMemory> staging_;  // of the outputs; only with a device
  bool has_outputs_ = false;

  SignatureTables tables_;                              // without outputs
  std::optional<SignatureTables> tables_with_outputs_;  // from the first successful run
};

hr_session::hr_session(std::shared_ptr<Library> library, const std::string& path, const hr_settings& settings)
    : library_(std::move(library)),
      cuda_(make_device(settings)),
      device_(cuda_ ? c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(cuda_->ordinal()))
                    : c10::Device(c10::DeviceType::CPU)),
      precision_(precision_of(settings, capabilities_of(cuda_.get()))),
      threads_(settings.threads > 0 ? settings.threads : library_->default_threads()),
      times_convolutions_(settings.conv_search == static_cast<int>(headroom::ConvSearch::exhaustive)) {
  const c10::InferenceMode inference;
  if (cuda_) {
    stream_ = stream_of(cuda_->stream(), cuda_->ordinal());
    limit_caching_allocator(*cuda_);
    at::globalContext().setFloat32MatmulPrecision("high");  // TF32 if the GPU supports it
  }
  loaded_ =
      load_module(path, device_, graph_optimization_of(settings, precision_), settings.graph_level == 99);
  loaded_.signature.metadata.emplace_back("headroom.precision", name_of(precision_));
  forward_ = &loaded_.module.get_method("forward").function();
  tables_ = SignatureTables(loaded_.signature);
  inputs_.resize(loaded_.signature.inputs.size());
  for (std::size_t i = 0; cuda_ && i < inputs_.size(); ++i)
    host_inputs_.push_back(std::make_unique<plugin::HostInput>(*cuda_));
  cache_release_.is_needed = cuda_ != nullptr;
}

// If the input's shape was guessed, the message names it, because a wrong guess may be the cause.
void hr_session::fail(std::string_view message) const {
  Failure failure = classify(message);
  if (failure.kind == HR_ERROR_FAILED && loaded_.is_guess && loaded_.signature.outputs.empty())
    failure.message += fmt::format(
        "; the file does not record its input's shape, so Headroom tried {}; try another --imgsz, or save "
        "the module with its shape (docs/libtorch.md)",
        TensorSpec{"", loaded_.signature.inputs.front().type, inputs_.front().sizes().vec(), {}}.describe());
  throw failure;
}

void hr_session::learn_outputs(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    TensorSpec spec{names[i], ElementType::unknown, {}, {}};
    if (outputs_[i].defined()) {
      spec.type = element_type_of(outputs_[i].scalar_type());
      spec.dims = outputs_[i].sizes().vec();
    }
    spec.dim_names.resize(spec.dims.size());
    loaded_.signature.outputs.push_back(std::move(spec));
  }
  tables_with_outputs_.emplace(loaded_.signature);
}

void hr_session::call() {
  outputs_.clear();
  stack_.clear();
  stack_.emplace_back(loaded_.module._ivalue());
  for (const at::Tensor& input : inputs_) stack_.emplace_back(input);
  forward_->run(stack_);
  const c10::IValue result = std::move(stack_.front());
  stack_.clear();
  std::vector<std::string> names;
  const bool is_first = !tables_with_outputs_;
  flatten(result, "output", is_first ? &names : nullptr, outputs_);
  for (at::Tensor& tensor : outputs_) tensor = readable(tensor, precision_);
  if (is_first) learn_outputs(names);
}

void hr_session::run_on_device() {
  const c10::StreamGuard guard(*stream_);
  at::globalContext().setBenchmarkCuDNN(times_convolutions_);
  cuda_->make_current();
  cuda_->begin_run();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    host_inputs_[i]->copy_to(reinterpret_cast<headroom::cuda::Pointer>(inputs_[i].data_ptr()));
  call();
  while (staging_.size() < outputs_.size()) staging_.emplace_back(*cuda_);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].defined())
      cuda_->copy_out(staging_[i].need(outputs_[i].nbytes()),
                      reinterpret_cast<headroom::cuda::Pointer>(outputs_[i].data_ptr()),
                      outputs_[i].nbytes());
  cuda_->end_run();
}

void hr_session::bind_input(int32_t index, const hr_tensor& tensor) {
  const std::size_t position = plugin::checked_index("input", index, inputs_.size());
  plugin::check_input(loaded_.signature.inputs[position], tensor);
  const c10::InferenceMode inference;
  const auto options =
      at::TensorOptions().dtype(scalar_type_of(static_cast<ElementType>(tensor.element_type)));
  const c10::IntArrayRef dims(tensor.dims, static_cast<std::size_t>(tensor.rank));
  if (!cuda_) {
    inputs_[position] = at::from_blob(tensor.data, dims, options);
    return;
  }
  const c10::StreamGuard guard(*stream_);
  cuda_->make_current();
  host_inputs_[position]->bind(tensor.data, tensor.bytes);
  inputs_[position] = at::empty(dims, options.device(device_));
}

void hr_session::run() {
  for (const at::Tensor& input : inputs_)
    if (!input.defined())
      throw failed("{}", inputs_.size() == 1 ? "its input is not bound" : "an input is not bound");
  has_outputs_ = false;
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  const c10::InferenceMode inference;
  const Autocast autocast(device_.type(), precision_);
  try {
    cuda_ ? run_on_device() : call();
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(error.what());
  }
  has_outputs_ = true;
}

hr_tensor hr_session::output(int32_t index) const {
  if (!has_outputs_) throw failed("the model has not run yet");
  const auto position = static_cast<std::size_t>(index);
  if (index < 0 || position >= outputs_.size() || !outputs_[position].defined())
    return {nullptr, 0, static_cast<int32_t>(ElementType::unknown), 0, nullptr};
  const at::Tensor& tensor = outputs_[position];
  void* const data = cuda_ ? staging_[position].data() : tensor.data_ptr();
  return {data, tensor.nbytes(), static_cast<int32_t>(element_type_of(tensor.scalar_type())),
          static_cast<int32_t>(tensor.dim()), tensor.sizes().data()};
}

hr_memory_stats hr_session::memory_stats() const {
  if (!cuda_) return {sizeof(hr_memory_stats), -1, -1, -1, -1, -1};
  const CachingFigures figures = caching_figures(cuda_->ordinal());
  return {sizeof(hr_memory_stats), figures.allocated, figures.reserved, figures.peak,
          figures.allocations,     figures.segments};
}

void hr_session::trim() {
  outputs_.clear();
  has_outputs_ = false;
  if (cuda_) {
    cuda_->make_current();
    cuda_->wait();
    empty_caches();
  }
  ::malloc_trim(0);
}

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  static constexpr std::array<const char*, 5> kExtensions{".torchscript", ".pt", ".pth", ".ts", nullptr};
  static const hr_backend kBackend = plugin::table_of<Library>("libtorch", kExtensions.data());
  return &kBackend;
}
