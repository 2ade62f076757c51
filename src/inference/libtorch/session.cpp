// The LibTorch plug-in: a TorchScript module with its bound inputs behind the plug-in interface.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <mutex>

#include "inference/libtorch/cuda_parts.h"
#include "inference/libtorch/forward.h"
#include "inference/libtorch/module.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/signature_tables.h"
#include "ledger/device_query.h"
#include "types/device_name.h"
#include "types/runtime_choices.h"

namespace headroom::libtorch {
namespace {

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
  if (device == nullptr) return {std::nullopt, has_half_on_cpu()};
  return {device->driver().compute_capability(device->ordinal()).first, has_half_on_cpu()};
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

// The module runs this often with the same shapes before a run is captured: the TorchScript executor profiles
// the first run and optimizes in the second one.
constexpr int kRunsBeforeCapture = 3;

// One input: the caller's memory, or another session's output.
struct Input {
  // What forward() gets. On a device, the input's own tensor, or without a captured graph the linked one.
  at::Tensor tensor{};
  std::unique_ptr<plugin::HostInput> host{};  // only with a device
  hr_session* from = nullptr;                 // of a linked input
  std::size_t output = 0;
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
  // From now on, the input is another session's output. Only a captured graph, which holds the addresses of
  // its inputs, copies it. A module that changes its input in place therefore changes that output.
  void link_input(int32_t index, hr_session& from, int32_t output);
  void run();
  // Has no data if the last run did not return this output, if it is not a tensor of plain numbers, or if it
  // stays on the device.
  hr_tensor output(int32_t index) const;
  hr_memory_stats memory_stats() const;
  void trim();
  hr_placement placement() const { return {sizeof(hr_placement), -1, -1, {}}; }
  std::int64_t device_time_ns() const { return cuda_ ? cuda_->last_run_ns() : -1; }

 private:
  void learn_outputs(const std::vector<std::string>& names);
  void need_own_tensor(std::size_t position, c10::IntArrayRef dims, c10::ScalarType type);
  void follow_links();
  void release_links();
  void forward();
  void forward_as_graph();
  void try_to_capture();
  void forget_graph();
  void run_on_device();
  void copy_outputs();
  [[noreturn]] void fail(std::string_view message) const;

  CacheRelease cache_release_;  // declared first: the members below hold blocks
  const std::shared_ptr<Library> library_;
  const std::unique_ptr<plugin::CudaDevice> cuda_;  // absent: the CPU
  const c10::Device device_;
  Precision precision_;
  const int threads_;
  const bool times_convolutions_;
  bool captures_;  // a run is captured as a CUDA graph and replayed
  std::optional<c10::Stream> stream_;
  LoadedModule loaded_;
  torch::jit::Function* forward_ = nullptr;

  std::vector<Input> inputs_;

  torch::jit::Stack stack_;
  RunGraph graph_;
  int runs_of_shapes_ = 0;  // with the inputs' shapes, and without the graph
  std::vector<at::Tensor> outputs_;
  std::vector<bool> stays_;                    // outputs that other sessions read on the device
  std::vector<plugin::PinnedMemory> staging_;  // of the other outputs; only with a device
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
      times_convolutions_(settings.conv_search == static_cast<int>(headroom::ConvSearch::exhaustive)),
      captures_(settings.device_graph != 0) {
  if (captures_ && !can_capture())
    throw failed("Headroom captures CUDA graphs with LibTorch 2.4 and newer; omit --capture-graph");
  const c10::InferenceMode inference;
  if (cuda_) {
    stream_ = stream_of(cuda_->stream(), cuda_->ordinal());
    limit_caching_allocator(*cuda_);
    at::globalContext().setFloat32MatmulPrecision("high");  // TF32 if the GPU supports it
  }
  loaded_ =
      load_module(path, device_, graph_optimization_of(settings, precision_), settings.graph_level == 99);
  // Of a module in 16 bits nothing is left for autocast, and its outputs keep their types, as linked modules
  // take them.
  if (settings.precision == static_cast<int>(Precision::automatic) && loaded_.is_half)
    precision_ = Precision::fp32;
  // Fused kernels are compiled anew for each new shape, and inputs of such modules change theirs. A captured
  // run has no launches to save.
  if (cuda_ && (captures_ || loaded_.signature.inputs.size() > 1))
    torch::jit::setTensorExprFuserEnabled(false);
  loaded_.signature.metadata.emplace_back("headroom.precision", name_of(precision_));
  forward_ = &loaded_.module.get_method("forward").function();
  tables_ = SignatureTables(loaded_.signature);
  inputs_.resize(loaded_.signature.inputs.size());
  for (Input& input : inputs_)
    if (cuda_) input.host = std::make_unique<plugin::HostInput>(*cuda_);
  cache_release_.is_needed = cuda_ != nullptr;
}

// If the input's shape was guessed, the message names it, because a wrong guess may be the cause.
void hr_session::fail(std::string_view message) const {
  Failure failure = classify(message);
  if (failure.kind == HR_ERROR_FAILED && loaded_.is_guess && loaded_.signature.outputs.empty())
    failure.message += fmt::format(
        "; the file does not record its input's shape, so Headroom tried {}; try another --imgsz, or save "
        "the module with its shape (docs/libtorch.md)",
        TensorSpec{"", loaded_.signature.inputs.front().type, inputs_.front().tensor.sizes().vec(), {}}
            .describe());
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

// Runs the module on the inputs' tensors.
void hr_session::forward() {
  outputs_.clear();
  stack_.clear();
  stack_.emplace_back(loaded_.module._ivalue());
  for (const Input& input : inputs_) stack_.emplace_back(input.tensor);
  forward_->run(stack_);
  const c10::IValue result = std::move(stack_.front());
  stack_.clear();
  std::vector<std::string> names;
  const bool is_first = !tables_with_outputs_;
  flatten(result, "output", is_first ? &names : nullptr, outputs_);
  for (at::Tensor& tensor : outputs_) tensor = readable(tensor, precision_);
  if (is_first) learn_outputs(names);
}

void hr_session::forward_as_graph() {
  if (!graph_.is_captured() && runs_of_shapes_ >= kRunsBeforeCapture) try_to_capture();
  if (graph_.is_captured()) return graph_.replay();
  forward();
  ++runs_of_shapes_;
}

// If the module cannot be captured (it synchronizes with the device, for example), it runs without a graph
// from now on.
void hr_session::try_to_capture() {
  outputs_.clear();
  cuda_->wait();
  empty_caches();  // the graph's pool cannot use these blocks
  try {
    graph_.capture([this] { forward(); });
    return;
  } catch (const std::exception& error) {
    stack_.clear();
    outputs_.clear();
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const Failure failure = classify(of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
    empty_caches();
    if (failure.kind == HR_ERROR_OUT_OF_MEMORY) throw;
    captures_ = false;
    std::fprintf(stderr, "LibTorch: cannot capture a run as a CUDA graph, so it runs without: %s\n",
                 failure.message.c_str());
  }
}

// Releases the graph with the memory of its run.
void hr_session::forget_graph() {
  if (!graph_.is_captured()) return;
  outputs_.clear();
  has_outputs_ = false;
  graph_.forget();
  empty_caches();
}

// Gives the input a tensor on the device. It stays while the shape stays the same, because a captured graph
// holds its address.
void hr_session::need_own_tensor(std::size_t position, c10::IntArrayRef dims, c10::ScalarType type) {
  at::Tensor& tensor = inputs_[position].tensor;
  if (tensor.defined() && tensor.sizes() == dims && tensor.scalar_type() == type) return;
  forget_graph();
  runs_of_shapes_ = 0;
  tensor = at::empty(dims, at::TensorOptions().dtype(type).device(device_));
}

void hr_session::link_input(int32_t index, hr_session& from, int32_t output) {
  const std::size_t position = plugin::checked_index("input", index, inputs_.size());
  const TensorSpec& into = loaded_.signature.inputs[position];
  if (!from.tables_with_outputs_) throw failed("the model that makes {} has not run yet", into.name);
  const auto& specs = from.loaded_.signature.outputs;
  const std::size_t source = plugin::checked_index("output", output, specs.size());
  if (device_ != from.device_) throw failed("the models run on different devices");
  if (into.type != specs[source].type || headroom::size_of(into.type) == 0)
    throw failed("the output {} and the input {} have different types", specs[source].name, into.name);
  Input& input = inputs_[position];
  input.from = &from;
  input.output = source;
  if (!cuda_) return;
  cuda_->make_current();
  input.host->bind(nullptr, 0);
  from.stays_.resize(specs.size());
  from.stays_[source] = true;
}

// Each run waits for its end, so the other sessions' outputs are complete, although they have streams of
// their own.
void hr_session::follow_links() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    if (input.from == nullptr) continue;
    const TensorSpec& spec = loaded_.signature.inputs[i];
    if (!input.from->has_outputs_ || !input.from->outputs_[input.output].defined())
      throw failed("the model that makes {} has no outputs", spec.name);
    const at::Tensor& made = input.from->outputs_[input.output];
    const auto fits = [](std::int64_t wanted, std::int64_t dim) { return wanted < 0 || wanted == dim; };
    const auto sizes = made.sizes();
    if (made.scalar_type() != scalar_type_of(spec.type) ||
        !std::equal(spec.dims.begin(), spec.dims.end(), sizes.begin(), sizes.end(), fits))
      throw failed("input {} needs {}, but got {}", spec.name, spec.describe(),
                   TensorSpec{"", element_type_of(made.scalar_type()), sizes.vec(), {}}.describe());
    if (!captures_) {
      input.tensor = made;
      continue;
    }
    need_own_tensor(i, sizes, made.scalar_type());
    input.tensor.copy_(made, true);
  }
}

// Without a graph, a linked tensor is released, so that the session that makes it frees it at its next run.
void hr_session::release_links() {
  for (Input& input : inputs_)
    if (input.from != nullptr && !captures_) input.tensor = at::Tensor();
}

void hr_session::run_on_device() {
  const c10::StreamGuard guard(*stream_);
  at::globalContext().setBenchmarkCuDNN(times_convolutions_);
  cuda_->make_current();
  cuda_->begin_run();
  follow_links();
  for (const Input& input : inputs_)
    if (input.from == nullptr)
      input.host->copy_to(reinterpret_cast<headroom::cuda::Pointer>(input.tensor.data_ptr()));
  captures_ ? forward_as_graph() : forward();
  copy_outputs();
  cuda_->end_run();
}

void hr_session::copy_outputs() {
  stays_.resize(outputs_.size());
  while (staging_.size() < outputs_.size()) staging_.emplace_back(*cuda_);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].defined() && !stays_[i])
      cuda_->copy_out(staging_[i].need(outputs_[i].nbytes()),
                      reinterpret_cast<headroom::cuda::Pointer>(outputs_[i].data_ptr()),
                      outputs_[i].nbytes());
}

void hr_session::bind_input(int32_t index, const hr_tensor& tensor) {
  const std::size_t position = plugin::checked_index("input", index, inputs_.size());
  plugin::check_input(loaded_.signature.inputs[position], tensor);
  const c10::InferenceMode inference;
  const c10::ScalarType type = scalar_type_of(static_cast<ElementType>(tensor.element_type));
  const c10::IntArrayRef dims(tensor.dims, static_cast<std::size_t>(tensor.rank));
  Input& input = inputs_[position];
  if (!cuda_) {
    input.tensor = at::from_blob(tensor.data, dims, at::TensorOptions().dtype(type));
    input.from = nullptr;
    return;
  }
  const c10::StreamGuard guard(*stream_);
  cuda_->make_current();
  input.host->bind(tensor.data, tensor.bytes);
  if (input.from != nullptr && !captures_) input.tensor = at::Tensor();  // it may be the other session's
  input.from = nullptr;
  need_own_tensor(position, dims, type);
}

void hr_session::run() {
  for (const Input& input : inputs_)
    if (input.from == nullptr && !input.tensor.defined())
      throw failed("{}", inputs_.size() == 1 ? "its input is not bound" : "an input is not bound");
  has_outputs_ = false;
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  const c10::InferenceMode inference;
  const Autocast autocast(device_.type(), precision_);
  try {
    if (cuda_) {
      run_on_device();
    } else {
      follow_links();
      forward();
    }
    release_links();
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
  const bool is_on_host = !cuda_ || !stays_[position];
  void* const data = cuda_ ? staging_[position].data() : tensor.data_ptr();
  return {is_on_host ? data : nullptr, is_on_host ? tensor.nbytes() : 0,
          static_cast<int32_t>(element_type_of(tensor.scalar_type())), static_cast<int32_t>(tensor.dim()),
          tensor.sizes().data()};
}

hr_memory_stats hr_session::memory_stats() const {
  if (!cuda_) return {sizeof(hr_memory_stats), -1, -1, -1, -1, -1};
  const CachingFigures figures = caching_figures(cuda_->ordinal());
  return {sizeof(hr_memory_stats), figures.allocated, figures.reserved, figures.peak,
          figures.allocations,     figures.segments};
}

// The next run captures a graph again at once if there was one, because the module is optimized already.
void hr_session::trim() {
  outputs_.clear();
  has_outputs_ = false;
  if (cuda_) {
    cuda_->make_current();
    cuda_->wait();
    graph_.forget();
    empty_caches();
  }
  ::malloc_trim(0);
}

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  static constexpr std::array<const char*, 5> kExtensions{".torchscript", ".pt", ".pth", ".ts", nullptr};
  static const hr_backend kBackend = [] {
    hr_backend table = plugin::table_of<Library>("libtorch", kExtensions.data());
    table.link_input = [](hr_session* session, int32_t index, hr_session* from, int32_t output,
                          hr_error* error) {
      return plugin::guarded(error, [&] { session->link_input(index, *from, output); });
    };
    return table;
  }();
  return &kBackend;
}
