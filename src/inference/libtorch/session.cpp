#include "inference/libtorch/session.h"

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
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "inference/libtorch/cuda_parts.h"
#include "inference/libtorch/failure.h"
#include "inference/libtorch/module.h"
#include "inference/libtorch/run_settings.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/signature_tables.h"
#include "ledger/device_query.h"
#include "types/device_name.h"
#include "types/runtime_settings.h"

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
  if (!device) throw Failure{HR_ERROR_FAILED, fmt::format("unknown device '{}'; use cpu or cuda:N", name)};
  check_settings(settings, device->is_cuda);
  if (!device->is_cuda) return nullptr;
  require_cuda();
  return std::make_unique<plugin::CudaDevice>(device->ordinal);
}

int compute_capability_major(const plugin::CudaDevice& device) {
  const cuda::Functions& call = device.driver().call();
  int handle = 0, major = 0;
  if (call.cuDeviceGet(&handle, static_cast<int>(device.ordinal())) != cuda::kSuccess ||
      call.cuDeviceGetAttribute(&major, cuda::kAttributeMajor, handle) != cuda::kSuccess)
    return 0;
  return major;
}

Capabilities capabilities_of(const plugin::CudaDevice* device) {
  return {device == nullptr ? std::nullopt : std::optional(compute_capability_major(*device)), kHasHalfOnCpu};
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

Library::Library()
    : version_(fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH)) {
  static std::once_flag once;  // it may be called only once per process
  std::call_once(once, [] { at::set_num_interop_threads(1); });
  default_threads_ = at::get_num_threads();
}

void prepare_device(const char* name, hr_device_facts& facts) {
  require_cuda();
  plugin::prepare_device(name, "cpu and cuda:N", facts);
  const c10::Device device(c10::DeviceType::CUDA,
                           static_cast<c10::DeviceIndex>(parse_device_name(name)->ordinal));
  at::empty({1}, at::TensorOptions().device(device));
}

}  // namespace headroom::libtorch

using namespace headroom::libtorch;  // because the C interface declares hr_session outside the namespace
using headroom::ElementType;
using headroom::Precision;
using headroom::TensorSpec;
namespace plugin = headroom::plugin;

struct hr_session::State {
  State(std::shared_ptr<Library> shared, const std::string& path, const hr_settings& settings)
      : library(std::move(shared)),
        cuda(make_device(settings)),
        device(cuda ? c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(cuda->ordinal()))
                    : c10::Device(c10::DeviceType::CPU)),
        precision(precision_of(settings, capabilities_of(cuda.get()))),
        threads(settings.threads > 0 ? settings.threads : library->default_threads()),
        times_convolutions(settings.conv_search == static_cast<int>(headroom::ConvSearch::exhaustive)) {
    const c10::InferenceMode inference;
    if (cuda) {
      stream = stream_of(cuda->stream(), cuda->ordinal());
      limit_caching_allocator(*cuda);
      at::globalContext().setFloat32MatmulPrecision("high");  // TF32 if the GPU supports it
      input_staging = std::make_unique<plugin::PinnedMemory>(*cuda);
    }
    loaded =
        load_module(path, device, graph_optimization_of(settings, precision), settings.graph_level == 99);
    loaded.signature.metadata.emplace_back("headroom.precision", name_of(precision));
    forward = &loaded.module.get_method("forward").function();
    describe_inputs(tables);
  }

  void describe_inputs(plugin::SignatureTables& to) const {
    for (const TensorSpec& spec : loaded.signature.inputs) to.add_input(spec);
    for (const auto& [key, value] : loaded.signature.metadata) to.add_metadata(key, value);
  }

  const TensorSpec& input_spec() const { return loaded.signature.inputs.front(); }
  void check_input(const hr_tensor& tensor) const;
  void learn_outputs(const std::vector<std::string>& names);
  void call();
  void run_on_device();
  [[noreturn]] void fail(std::string_view message) const;

  const std::shared_ptr<Library> library;
  const std::unique_ptr<plugin::CudaDevice> cuda;  // absent: the CPU
  const c10::Device device;
  const Precision precision;
  const int threads;
  const bool times_convolutions;
  std::optional<c10::Stream> stream;
  LoadedModule loaded;
  torch::jit::Function* forward = nullptr;

  at::Tensor input;  // on a device: the copy of the bound memory
  const void* host_input = nullptr;
  std::size_t input_bytes = 0;
  std::unique_ptr<plugin::PinnedInPlace> pinned_input;
  std::unique_ptr<plugin::PinnedMemory> input_staging;

  torch::jit::Stack stack;
  std::vector<at::Tensor> outputs;
  std::vector<plugin::PinnedMemory> staging;  // of the outputs; only with a device
  bool has_outputs = false;

  plugin::SignatureTables tables;        // without outputs
  std::vector<TensorSpec> output_specs;  // from the first successful run; must not move afterwards
  std::optional<plugin::SignatureTables> tables_with_outputs;
};

void hr_session::State::check_input(const hr_tensor& tensor) const {
  const TensorSpec& spec = input_spec();
  const TensorSpec given{spec.name,
                         static_cast<ElementType>(tensor.element_type),
                         {tensor.dims, tensor.dims + std::max(tensor.rank, 0)},
                         {}};
  const auto agrees = [](std::int64_t wanted, std::int64_t dim) {
    return dim >= 0 && (wanted < 0 || wanted == dim);
  };
  if (given.type != spec.type ||
      !std::equal(spec.dims.begin(), spec.dims.end(), given.dims.begin(), given.dims.end(), agrees))
    throw Failure{HR_ERROR_FAILED,
                  fmt::format("input {} needs {}, but got {}", spec.name, spec.describe(), given.describe())};
  const std::size_t wanted = plugin::checked_bytes(spec.name, tensor, headroom::size_of(spec.type));
  if (tensor.bytes != wanted)
    throw Failure{HR_ERROR_FAILED,
                  fmt::format("input {} needs {} bytes, but got {}", spec.name, wanted, tensor.bytes)};
}

// If the input's shape was guessed, the message names it, because a wrong guess may be the cause.
void hr_session::State::fail(std::string_view message) const {
  Failure failure = classify(message);
  if (failure.kind == HR_ERROR_FAILED && loaded.signature.is_guess && output_specs.empty())
    failure.message += fmt::format(
        "; the file does not record its input's shape, so Headroom tried {}; try another --imgsz, or save "
        "the module with its shape (docs/libtorch.md)",
        TensorSpec{"", input_spec().type, input.sizes().vec(), {}}.describe());
  throw failure;
}

void hr_session::State::learn_outputs(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TensorSpec spec{names[i], ElementType::unknown, {}, {}};
    if (outputs[i].defined()) {
      spec.type = element_type_of(outputs[i].scalar_type());
      spec.dims = outputs[i].sizes().vec();
    }
    spec.dim_names.resize(spec.dims.size());
    output_specs.push_back(std::move(spec));
  }
  tables_with_outputs.emplace();
  describe_inputs(*tables_with_outputs);
  for (const TensorSpec& spec : output_specs) tables_with_outputs->add_output(spec);
}

void hr_session::State::call() {
  outputs.clear();
  stack.clear();
  stack.emplace_back(loaded.module._ivalue());
  stack.emplace_back(input);
  forward->run(stack);
  const c10::IValue result = std::move(stack.front());
  stack.clear();
  std::vector<std::string> names;
  const bool is_first = !tables_with_outputs;
  flatten(result, "output", is_first ? &names : nullptr, outputs);
  for (at::Tensor& tensor : outputs) tensor = readable(tensor, precision);
  if (is_first) learn_outputs(names);
}

void hr_session::State::run_on_device() {
  const c10::StreamGuard guard(*stream);
  at::globalContext().setBenchmarkCuDNN(times_convolutions);
  cuda->make_current();
  cuda->begin_run();
  const void* from = host_input;
  if (!pinned_input->is_pinned() && input_bytes > 0)
    from = std::memcpy(input_staging->data(), host_input, input_bytes);
  cuda->copy_in(reinterpret_cast<headroom::cuda::Pointer>(input.data_ptr()), from, input_bytes);
  call();
  while (staging.size() < outputs.size()) staging.emplace_back(*cuda);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined())
      cuda->copy_out(staging[i].need(outputs[i].nbytes()),
                     reinterpret_cast<headroom::cuda::Pointer>(outputs[i].data_ptr()), outputs[i].nbytes());
  cuda->end_run();
}

hr_session::hr_session(std::shared_ptr<Library> library, const std::string& path, const hr_settings& settings)
    : state_(std::make_unique<State>(std::move(library), path, settings)) {}

hr_session::~hr_session() {
  const bool has_cache = state_->cuda != nullptr;
  if (has_cache) state_->cuda->try_to_make_current();
  state_.reset();
  if (has_cache) empty_caches();
}

void hr_session::describe(hr_description& description) {
  (state_->tables_with_outputs ? *state_->tables_with_outputs : state_->tables).fill(description);
  if (!state_->tables_with_outputs) description.output_count = -1;
}

void hr_session::bind_input(int32_t index, const hr_tensor& tensor) {
  plugin::checked_index("input", index, 1);
  State& state = *state_;
  state.check_input(tensor);
  const c10::InferenceMode inference;
  const auto options =
      at::TensorOptions().dtype(scalar_type_of(static_cast<ElementType>(tensor.element_type)));
  const c10::IntArrayRef dims(tensor.dims, static_cast<std::size_t>(tensor.rank));
  state.host_input = tensor.data;
  state.input_bytes = tensor.bytes;
  if (!state.cuda) {
    state.input = at::from_blob(tensor.data, dims, options);
    return;
  }
  const c10::StreamGuard guard(*state.stream);
  state.cuda->make_current();
  state.pinned_input.reset();
  state.pinned_input = std::make_unique<plugin::PinnedInPlace>(*state.cuda, tensor.data, tensor.bytes);
  if (!state.pinned_input->is_pinned()) state.input_staging->need(tensor.bytes);
  state.input = at::empty(dims, options.device(state.device));
}

void hr_session::run() {
  State& state = *state_;
  if (!state.input.defined()) throw Failure{HR_ERROR_FAILED, "its input is not bound"};
  state.has_outputs = false;
  if (at::get_num_threads() != state.threads) at::set_num_threads(state.threads);
  const c10::InferenceMode inference;
  const Autocast autocast(state.device.type(), state.precision);
  try {
    state.cuda ? state.run_on_device() : state.call();
  } catch (const c10::Error& error) {
    state.fail(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    state.fail(error.what());
  }
  state.has_outputs = true;
}

hr_tensor hr_session::output(int32_t index) {
  State& state = *state_;
  if (!state.has_outputs) throw Failure{HR_ERROR_FAILED, "the model has not run yet"};
  const auto position = static_cast<std::size_t>(index);
  if (index < 0 || position >= state.outputs.size() || !state.outputs[position].defined())
    return {nullptr, 0, static_cast<int32_t>(ElementType::unknown), 0, nullptr};
  const at::Tensor& tensor = state.outputs[position];
  void* const data = state.cuda ? state.staging[position].data() : tensor.data_ptr();
  return {data, tensor.nbytes(), static_cast<int32_t>(element_type_of(tensor.scalar_type())),
          static_cast<int32_t>(tensor.dim()), tensor.sizes().data()};
}

hr_memory_stats hr_session::memory_stats() const {
  if (!state_->cuda) return {sizeof(hr_memory_stats), -1, -1, -1, -1, -1};
  const CachingFigures figures = caching_figures(state_->cuda->ordinal());
  return {sizeof(hr_memory_stats), figures.allocated, figures.reserved, figures.peak,
          figures.allocations,     figures.segments};
}

void hr_session::trim() {
  state_->outputs.clear();
  state_->has_outputs = false;
  if (state_->cuda) {
    state_->cuda->make_current();
    state_->cuda->wait();
    empty_caches();
  }
  ::malloc_trim(0);
}

std::int64_t hr_session::device_time_ns() const { return state_->cuda ? state_->cuda->last_run_ns() : -1; }
