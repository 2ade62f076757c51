// The ONNX Runtime plug-in: a loaded model with its bound inputs and outputs behind the plug-in interface.
#include <malloc.h>
#include <onnxruntime_c_api.h>

#include <array>
#include <cstdlib>
#include <functional>

#include "inference/onnxruntime/model_loading.h"
#include "inference/onnxruntime/session_io.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/signature_tables.h"
#include "types/device_name.h"

namespace headroom::onnxruntime {
namespace {

constexpr uint32_t kApiWithStats = 23;  // AllocatorGetStats

#if defined(__x86_64__)
constexpr bool kOldLibrariesHaveExactArena = true;
#else
// On this processor, libraries before 1.23 silently use no arena, and have no statistics that would reveal
// it.
constexpr bool kOldLibrariesHaveExactArena = false;
#endif

std::unique_ptr<plugin::CudaDevice> make_device(const hr_settings& settings) {
  const std::string name = settings.device == nullptr ? "cpu" : settings.device;
  const auto device = parse_device_name(name);
  if (!device) throw failed("unknown device '{}'; use cpu or cuda:N", name);
  return device->is_cuda ? std::make_unique<plugin::CudaDevice>(device->ordinal) : nullptr;
}

Owned<OrtAllocator> session_allocator(const Runtime& runtime, const OrtSession& session, bool arena) {
  const auto memory = cpu_memory(runtime, arena ? OrtArenaAllocator : OrtDeviceAllocator);
  return runtime.make(runtime.api().ReleaseAllocator, runtime.api().CreateAllocator, &session, memory.get());
}

// ONNX Runtime waits at the end of a run on a device, although Headroom waits again after copying the
// outputs. The option disable_synchronize_execution_providers would avoid the first wait. But with it, ONNX
// Runtime 1.29 has two bugs: it leaks the pinned memory of operators such as Concat (0.6 MB per run of
// densenet121), and it aborts the process when the session ends.
Owned<OrtRunOptions> create_run_options(const Runtime& runtime) {
  return runtime.make(runtime.api().ReleaseRunOptions, runtime.api().CreateRunOptions);
}

}  // namespace
}  // namespace headroom::onnxruntime

using namespace headroom::onnxruntime;  // because the C interface declares hr_session outside the namespace
using headroom::ElementType;
using headroom::TensorSpec;
namespace plugin = headroom::plugin;

// The opaque type of the plug-in interface: a loaded ONNX model with its bound inputs and outputs. All
// members throw plugin::Failure.
struct hr_session {
 public:
  hr_session(const std::shared_ptr<Runtime>& runtime, const char* path, const hr_settings& settings)
      : hr_session(runtime, settings.arena != 0, settings.device_graph != 0, make_device(settings),
                   [&](const plugin::CudaDevice* device) {
                     return create_session(*runtime, path, settings, device);
                   }) {
    if (!device_ && has_arena_ && settings.arena_same_as_requested != 0) require_exact_arena();
  }
  // Creates another session of the same loaded model; ONNX Runtime can run it on several threads at once.
  // Weights (including packed ones), arena and threads are shared. Inputs and outputs are separate. CPU
  // only: on a device, input and output memory and the stream belong to one session. `other` may be running.
  explicit hr_session(const hr_session& other)
      : hr_session(other.runtime_, other.has_arena_, false, nullptr, [&](const plugin::CudaDevice*) {
          if (other.device_) throw failed("sessions on a GPU do not share their weights");
          return other.session_;
        }) {}
  hr_session& operator=(const hr_session&) = delete;

  void describe(hr_description& description) const { tables_.fill(description); }
  void bind_input(int32_t index, const hr_tensor& tensor);
  void link_input(int32_t index, hr_session& from, int32_t output);
  void run();
  // Call it after a successful run.
  hr_tensor output(int32_t index);
  hr_memory_stats memory_stats() const;
  // Returns the arena's unused regions to the C library, and that library's free memory to the system.
  //
  // ONNX Runtime shrinks an arena only at the end of a run that requests it. So the model runs once more
  // on the bound inputs, if it has run before. OrtAllocator::Shrink exists since 1.25, but up to 1.30 it
  // does nothing for a session's CPU allocator.
  //
  // An arena that grows by powers of two keeps its first region. With a captured graph, trim() does nothing,
  // because the graph holds addresses in the device's arena.
  void trim();

  // Unknown (-1) for a session on the CPU.
  hr_placement placement() const;
  std::int64_t device_time_ns() const { return device_ ? device_->last_run_ns() : -1; }

 private:
  struct Input {
    std::vector<int64_t> dims;  // as bound
    bool bound = false;
    // Of a linked input: the other session's output, and the tensor over its memory.
    hr_session* from = nullptr;
    std::size_t from_output = 0;
    const void* from_data = nullptr;
    std::shared_ptr<OrtValue> from_value{};
  };

  using LoadSession = std::function<std::shared_ptr<OrtSession>(const plugin::CudaDevice*)>;
  hr_session(std::shared_ptr<Runtime> runtime, bool has_arena, bool has_device_graph,
             std::unique_ptr<plugin::CudaDevice> device, const LoadSession& load)
      : runtime_(std::move(runtime)),
        api_(runtime_->api()),
        has_arena_(has_arena),
        has_device_graph_(has_device_graph),
        device_(std::move(device)),
        session_(load(device_.get())),
        allocator_(session_allocator(*runtime_, *session_, has_arena_)),
        binding_(runtime_->make(api_.ReleaseIoBinding, api_.CreateIoBinding, session_.get())),
        run_options_(create_run_options(*runtime_)),
        signature_(read_signature(*runtime_, *session_)),
        tables_(signature_),
        inputs_(signature_.inputs.size()),
        unbound_inputs_(inputs_.size()),
        outputs_(*runtime_, *binding_, signature_.outputs),
        device_io_(device_ ? std::make_unique<DeviceIo>(*runtime_, *device_, *session_, *binding_, signature_,
                                                        outputs_)
                           : nullptr) {}

  void bind_on_cpu(const TensorSpec& spec, const hr_tensor& tensor);
  void mark_bound(Input& input, std::vector<int64_t> dims);
  void follow_link(std::size_t position);
  void recover(OrtStatus* status);
  void run_on_device();
  void shrink_arena();
  void require_exact_arena() const;

  const std::shared_ptr<Runtime> runtime_;
  const OrtApi& api_;
  const bool has_arena_, has_device_graph_;
  const std::unique_ptr<plugin::CudaDevice> device_;  // absent: the CPU
  const std::shared_ptr<OrtSession> session_;
  const Owned<OrtAllocator> allocator_;  // this session's allocator
  const Owned<OrtIoBinding> binding_;
  const Owned<OrtRunOptions> run_options_;
  const headroom::ModelDescription signature_;
  const headroom::inference::SignatureTables tables_;
  std::vector<Input> inputs_;
  std::size_t unbound_inputs_;
  BoundOutputs outputs_;
  const std::unique_ptr<DeviceIo> device_io_;  // only with a device
  bool has_run_ = false;
  bool has_outputs_ = false;  // the last run's outputs are valid; trim() releases them
};

// Throws if ONNX Runtime silently uses no arena for the environment's allocator. The figures would then
// show plain malloc instead of the arena's growth.
void hr_session::require_exact_arena() const {
  const bool has_stats = runtime_->newer_api(kApiWithStats) != nullptr;
  if (has_stats ? memory_stats().arena_extensions >= 0 : kOldLibrariesHaveExactArena) return;
  throw unavailable(
      "ONNX Runtime {} has no arena with extend=same_as_requested on this processor; use "
      "extend=next_power_of_two, or arena=off",
      runtime_->version());
}

void hr_session::bind_input(int32_t index, const hr_tensor& tensor) {
  const std::size_t position = plugin::checked_index("input", index, inputs_.size());
  const TensorSpec& spec = signature_.inputs[position];
  if (spec.type == ElementType::string)
    throw failed("input {} takes strings, which Headroom does not support", spec.name);
  if (spec.type == ElementType::unknown)
    throw failed("input {} is not a tensor of numbers, so Headroom cannot bind it", spec.name);
  plugin::check_input(spec, tensor);
  Input& input = inputs_[position];
  std::vector<int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
  // Check before binding: the captured graph holds the addresses of its inputs.
  if (has_device_graph_ && has_run_ && input.dims != dims)
    throw failed("a captured graph accepts only one input shape; omit --capture-graph");
  if (device_) device_->make_current();
  if (!device_io_ || !device_io_->bind_input(position, tensor)) bind_on_cpu(spec, tensor);
  mark_bound(input, std::move(dims));
  input.from = nullptr;
  input.from_value.reset();
}

void hr_session::mark_bound(Input& input, std::vector<int64_t> dims) {
  if (!input.bound) --unbound_inputs_;
  if (!input.bound || input.dims != dims) outputs_.forget_shapes();
  input.dims = std::move(dims);
  input.bound = true;
}

void hr_session::link_input(int32_t index, hr_session& from, int32_t output) {
  const std::size_t position = plugin::checked_index("input", index, inputs_.size());
  const std::size_t source = plugin::checked_index("output", output, from.signature_.outputs.size());
  const TensorSpec& into = signature_.inputs[position];
  const TensorSpec& out_of = from.signature_.outputs[source];
  if (!from.has_run_) throw failed("the model with the output {} has not run yet", out_of.name);
  if (has_device_graph_ || from.has_device_graph_)
    throw failed("a captured graph holds the addresses of its own inputs; omit --capture-graph");
  if ((device_ == nullptr) != (from.device_ == nullptr) ||
      (device_ && device_->ordinal() != from.device_->ordinal()))
    throw failed("the models run on different devices");
  if (into.type != out_of.type || headroom::size_of(into.type) == 0)
    throw failed("the output {} and the input {} have different types", out_of.name, into.name);
  if (from.device_io_) from.device_io_->keep_on_device(source);
  if (device_io_) device_io_->forget_input(position);
  inputs_[position].from = &from;
  inputs_[position].from_output = source;
  inputs_[position].from_value.reset();
  follow_link(position);
}

// Binds the memory of the other session's output. ONNX Runtime moves it if this model reads it elsewhere, so
// it is bound before each run.
void hr_session::follow_link(std::size_t position) {
  Input& input = inputs_[position];
  if (!input.from->has_outputs_)
    throw failed("the model that makes {} has no outputs", signature_.inputs[position].name);
  const hr_tensor tensor = input.from->outputs_.view(input.from_output);
  const std::vector<int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
  if (!input.from_value || tensor.data != input.from_data || dims != input.dims) {
    const bool on_device = input.from->outputs_.is_on_device(input.from_output);
    const auto memory =
        on_device ? cuda_memory(*runtime_, device_->ordinal()) : cpu_memory(*runtime_, OrtDeviceAllocator);
    input.from_value = runtime_->make(
        api_.ReleaseValue, api_.CreateTensorWithDataAsOrtValue, memory.get(), tensor.data, tensor.bytes,
        tensor.dims, static_cast<std::size_t>(tensor.rank), onnx_type_of(signature_.inputs[position].type));
    input.from_data = tensor.data;
    mark_bound(input, dims);
  }
  runtime_->check(
      api_.BindInput(binding_.get(), signature_.inputs[position].name.c_str(), input.from_value.get()));
}

void hr_session::bind_on_cpu(const TensorSpec& spec, const hr_tensor& tensor) {
  static char empty_tensor;  // address for tensors without elements
  const auto cpu = cpu_memory(*runtime_, OrtDeviceAllocator);
  const auto value =
      runtime_->make(api_.ReleaseValue, api_.CreateTensorWithDataAsOrtValue, cpu.get(),
                     tensor.data == nullptr ? &empty_tensor : tensor.data, tensor.bytes, tensor.dims,
                     static_cast<std::size_t>(tensor.rank), onnx_type_of(spec.type));
  runtime_->check(
      api_.BindInput(binding_.get(), spec.name.c_str(), value.get()));  // keeps a second reference
}

void hr_session::run() {
  if (unbound_inputs_ > 0) throw failed("{} of its inputs are not bound", unbound_inputs_);
  if (device_) device_->make_current();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].from != nullptr) follow_link(i);
  outputs_.prepare();
  if (device_) {
    run_on_device();
  } else {
    OrtStatus* status = api_.RunWithBinding(session_.get(), run_options_.get(), binding_.get());
    if (status != nullptr) recover(status);
    outputs_.run_succeeded();
  }
  has_run_ = true;
  has_outputs_ = true;
}

void hr_session::run_on_device() {
  device_->begin_run();
  device_io_->copy_inputs();
  OrtStatus* status = api_.RunWithBinding(session_.get(), run_options_.get(), binding_.get());
  if (status != nullptr) recover(status);
  outputs_.run_succeeded();
  device_io_->copy_outputs();
  device_->end_run();
}

// Runs again with outputs that ONNX Runtime allocates, if the bound output tensors may be the cause of the
// failure.
void hr_session::recover(OrtStatus* status) {
  const Owned<OrtStatus> owned(status, api_.ReleaseStatus);
  const Failure failure = classify(api_.GetErrorMessage(status));
  if (failure.kind == HR_ERROR_OUT_OF_MEMORY || !outputs_.stop_reusing_tensors()) throw failure;
  outputs_.prepare();
  OrtStatus* again = api_.RunWithBinding(session_.get(), run_options_.get(), binding_.get());
  if (again == nullptr) return;
  api_.ReleaseStatus(again);
  throw failure;
}

hr_tensor hr_session::output(int32_t index) {
  if (!has_outputs_) throw failed("the model has not run yet");
  const std::size_t position = plugin::checked_index("output", index, signature_.outputs.size());
  return device_io_ ? device_io_->output(position) : outputs_.view(position);
}

hr_placement hr_session::placement() const {
  if (device_) return placement_of(*runtime_, *session_);
  return {sizeof(hr_placement), -1, -1, {}};
}

hr_memory_stats hr_session::memory_stats() const {
  hr_memory_stats stats{sizeof(hr_memory_stats), -1, -1, -1, -1, -1};
  const OrtApi* newer = runtime_->newer_api(kApiWithStats);
  if (newer == nullptr) return stats;
  const auto pairs = runtime_->make(newer->ReleaseKeyValuePairs, newer->AllocatorGetStats, allocator_.get());
  const auto figure = [&](const char* key) -> int64_t {
    const char* text = newer->GetKeyValue(pairs.get(), key);
    return text == nullptr ? -1 : std::strtoll(text, nullptr, 10);
  };
  stats.arena_in_use = figure("InUse");
  stats.arena_total = figure("TotalAllocated");
  stats.arena_peak = figure("MaxInUse");
  stats.allocations = figure("NumAllocs");
  stats.arena_extensions = figure("NumArenaExtensions");
  return stats;
}

void hr_session::trim() {
  if (has_device_graph_) return;
  if (device_) device_->make_current();
  outputs_.release();
  has_outputs_ = false;
  if (has_arena_) shrink_arena();
  ::malloc_trim(0);
}

void hr_session::shrink_arena() {
  if (!has_run_ || unbound_inputs_ > 0) return;
  for (const Input& input : inputs_)
    if (input.from != nullptr && !input.from->has_outputs_) return;
  const auto options = create_run_options(*runtime_);
  const std::string arenas = device_ ? "cpu:0;gpu:" + std::to_string(device_->ordinal()) : "cpu:0";
  runtime_->check(
      api_.AddRunConfigEntry(options.get(), "memory.enable_memory_arena_shrinkage", arenas.c_str()));
  outputs_.release();  // these outputs are not read, and live ones would pin their region of the arena
  runtime_->check(api_.RunWithBinding(session_.get(), options.get(), binding_.get()));
  outputs_.release();
}

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
#ifdef HEADROOM_PROVIDER_TENSORRT
  constexpr const char* kName = "onnxruntime_tensorrt";
#else
  constexpr const char* kName = "onnxruntime";
#endif
  static constexpr std::array<const char*, 3> kExtensions{".onnx", ".ort", nullptr};
  static const hr_backend kBackend = [] {
    hr_backend table = plugin::table_of<Runtime>(kName, kExtensions.data());
    table.share = [](hr_session* of, hr_session** session, hr_error* error) {
      return plugin::guarded(error, [&] { *session = std::make_unique<hr_session>(*of).release(); });
    };
    table.make_arena = [](int64_t bytes, hr_error* error) {
      return plugin::guarded(error, [&] { plugin::started<Runtime>().get()->fill_shared_arena(bytes); });
    };
    table.link_input = [](hr_session* session, int32_t index, hr_session* from, int32_t output,
                          hr_error* error) {
      return plugin::guarded(error, [&] { session->link_input(index, *from, output); });
    };
    return table;
  }();
  return &kBackend;
}
