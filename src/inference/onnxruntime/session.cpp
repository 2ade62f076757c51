#include "inference/onnxruntime/session.h"

#include <malloc.h>

#include <cstdlib>
#include <string>

#include "inference/onnxruntime/cuda_provider.h"
#include "inference/onnxruntime/failure.h"
#include "inference/onnxruntime/mapped_model.h"
#include "inference/onnxruntime/session_options.h"
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
  if (!device) throw Failure{HR_ERROR_FAILED, "unknown device '" + name + "'; use cpu or cuda:N"};
  return device->is_cuda ? std::make_unique<plugin::CudaDevice>(device->ordinal) : nullptr;
}

std::shared_ptr<OrtSession> create_session(Runtime& runtime, const char* path, const hr_settings& settings,
                                           const plugin::CudaDevice* device) {
  if (settings.mapped != 0 && device != nullptr)
    throw Failure{HR_ERROR_FAILED,
                  "a GPU session copies the weights to the GPU, so they cannot be mapped; omit mapped=on"};
  const auto options = make_session_options(runtime, settings, device);
  const std::string file = settings.mapped != 0 ? mapped_model(runtime, path, settings) : path;
  if (settings.mapped != 0) add_mapping(runtime, *options);
  OrtSession* made = nullptr;
  runtime.check(runtime.api().CreateSession(runtime.env(), file.c_str(), options.get(), &made));
  std::shared_ptr<OrtSession> session(made, runtime.api().ReleaseSession);
  if (settings.mapped != 0) require_mapped(runtime, file);
  return session;
}

// Returns `session` if it runs on the CPU. A device session cannot be shared: its input and output memory
// and its stream belong to one session.
const hr_session& require_cpu(const hr_session& session, bool has_device) {
  if (has_device) throw Failure{HR_ERROR_FAILED, "sessions on a GPU do not share their weights"};
  return session;
}

Owned<OrtAllocator> session_allocator(const Runtime& runtime, const OrtSession& session, bool arena) {
  const auto memory = cpu_memory(runtime, arena ? OrtArenaAllocator : OrtDeviceAllocator);
  OrtAllocator* made = nullptr;
  runtime.check(runtime.api().CreateAllocator(&session, memory.get(), &made));
  return {made, runtime.api().ReleaseAllocator};
}

Owned<OrtIoBinding> create_binding(const Runtime& runtime, OrtSession& session) {
  OrtIoBinding* made = nullptr;
  runtime.check(runtime.api().CreateIoBinding(&session, &made));
  return {made, runtime.api().ReleaseIoBinding};
}

// ONNX Runtime waits at the end of a run on a device, although Headroom waits again after copying the
// outputs. The option disable_synchronize_execution_providers would avoid the first wait. But with it, ONNX
// Runtime 1.29 has two bugs: it leaks the pinned memory of operators such as Concat (0.6 MB per run of
// densenet121), and it aborts the process when the session ends.
Owned<OrtRunOptions> create_run_options(const Runtime& runtime) {
  OrtRunOptions* made = nullptr;
  runtime.check(runtime.api().CreateRunOptions(&made));
  return {made, runtime.api().ReleaseRunOptions};
}

std::string dims_text(const TensorSpec& spec, const hr_tensor& tensor) {
  TensorSpec given{spec.name, static_cast<ElementType>(tensor.element_type), {}, {}};
  if (tensor.rank > 0) given.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  return given.describe();
}

// True if the tensor's dimensions match the model's `spec`.
bool fits(const TensorSpec& spec, const hr_tensor& tensor) {
  if (static_cast<std::size_t>(tensor.rank) != spec.dims.size()) return false;
  for (std::size_t i = 0; i < spec.dims.size(); ++i)
    if (tensor.dims[i] < 0 || (spec.dims[i] >= 0 && spec.dims[i] != tensor.dims[i])) return false;
  return true;
}

}  // namespace
}  // namespace headroom::onnxruntime

using namespace headroom::onnxruntime;  // because the C interface declares hr_session outside the namespace

hr_session::hr_session(std::shared_ptr<Runtime> runtime, const char* path, const hr_settings& settings)
    : runtime_(std::move(runtime)),
      api_(runtime_->api()),
      has_arena_(settings.arena != 0),
      has_device_graph_(settings.device_graph != 0),
      device_(make_device(settings)),
      session_(create_session(*runtime_, path, settings, device_.get())),
      allocator_(session_allocator(*runtime_, *session_, has_arena_)),
      binding_(create_binding(*runtime_, *session_)),
      run_options_(create_run_options(*runtime_)),
      signature_(read_signature(*runtime_, *session_)),
      tables_(tables_of(signature_)),
      inputs_(signature_.inputs.size()),
      unbound_inputs_(inputs_.size()),
      outputs_(*runtime_, *binding_, signature_.outputs),
      device_io_(device_ ? std::make_unique<DeviceIo>(*runtime_, *device_, *session_, *binding_, signature_,
                                                      outputs_)
                         : nullptr) {
  if (!device_ && has_arena_ && settings.arena_same_as_requested != 0) require_exact_arena();
}

hr_session::hr_session(const hr_session& other)
    : runtime_(require_cpu(other, other.device_ != nullptr).runtime_),
      api_(runtime_->api()),
      has_arena_(other.has_arena_),
      has_device_graph_(false),
      session_(other.session_),
      allocator_(session_allocator(*runtime_, *session_, has_arena_)),
      binding_(create_binding(*runtime_, *session_)),
      run_options_(create_run_options(*runtime_)),
      signature_(read_signature(*runtime_, *session_)),
      tables_(tables_of(signature_)),
      inputs_(signature_.inputs.size()),
      unbound_inputs_(inputs_.size()),
      outputs_(*runtime_, *binding_, signature_.outputs) {}

// Throws if ONNX Runtime silently uses no arena for the environment's allocator. The figures would then
// show plain malloc instead of the arena's growth.
void hr_session::require_exact_arena() const {
  const bool has_stats = runtime_->newer_api(kApiWithStats) != nullptr;
  if (has_stats ? memory_stats().arena_extensions >= 0 : kOldLibrariesHaveExactArena) return;
  throw Failure{HR_ERROR_UNAVAILABLE, "ONNX Runtime " + runtime_->version() +
                                          " has no arena with extend=same_as_requested on this processor; "
                                          "use extend=next_power_of_two, or arena=off"};
}

void hr_session::check_input(const headroom::TensorSpec& spec, const hr_tensor& tensor) const {
  using headroom::ElementType;
  if (spec.type == ElementType::string)
    throw Failure{HR_ERROR_FAILED, "input " + spec.name + " takes strings, which Headroom does not support"};
  if (spec.type == ElementType::unknown)
    throw Failure{HR_ERROR_FAILED,
                  "input " + spec.name + " is not a tensor of numbers, so Headroom cannot bind it"};
  if (static_cast<ElementType>(tensor.element_type) != spec.type || !fits(spec, tensor))
    throw Failure{HR_ERROR_FAILED, "input " + spec.name + " needs " + spec.describe() + ", but got " +
                                       dims_text(spec, tensor)};
  const std::size_t wanted = headroom::plugin::checked_bytes(spec.name, tensor, headroom::size_of(spec.type));
  if (tensor.bytes != wanted)
    throw Failure{HR_ERROR_FAILED, "input " + spec.name + " needs " + std::to_string(wanted) +
                                       " bytes, but got " + std::to_string(tensor.bytes)};
}

void hr_session::bind_input(int32_t index, const hr_tensor& tensor) {
  const std::size_t position = headroom::plugin::checked_index("input", index, inputs_.size());
  const headroom::TensorSpec& spec = signature_.inputs[position];
  check_input(spec, tensor);
  Input& input = inputs_[position];
  std::vector<int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
  // Check before binding: the captured graph holds the addresses of its inputs.
  if (has_device_graph_ && has_run_ && input.dims != dims)
    throw Failure{HR_ERROR_FAILED, "a captured graph accepts only one input shape; omit --capture-graph"};
  if (device_) device_->make_current();
  if (!device_io_ || !device_io_->bind_input(position, tensor)) bind_on_cpu(spec, tensor);
  if (!input.bound) --unbound_inputs_;
  if (!input.bound || input.dims != dims) outputs_.forget_shapes();
  input = {std::move(dims), true};
}

void hr_session::bind_on_cpu(const headroom::TensorSpec& spec, const hr_tensor& tensor) {
  static char empty_tensor;  // address for tensors without elements
  const auto cpu = cpu_memory(*runtime_, OrtDeviceAllocator);
  OrtValue* made = nullptr;
  runtime_->check(api_.CreateTensorWithDataAsOrtValue(
      cpu.get(), tensor.data == nullptr ? &empty_tensor : tensor.data, tensor.bytes, tensor.dims,
      static_cast<std::size_t>(tensor.rank), onnx_type_of(spec.type), &made));
  const Owned<OrtValue> value(made, api_.ReleaseValue);  // the binding keeps a second reference
  runtime_->check(api_.BindInput(binding_.get(), spec.name.c_str(), made));
}

void hr_session::run() {
  if (unbound_inputs_ > 0)
    throw Failure{HR_ERROR_FAILED, std::to_string(unbound_inputs_) + " of its inputs are not bound"};
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
  device_->make_current();
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
  if (!has_outputs_) throw Failure{HR_ERROR_FAILED, "the model has not run yet"};
  const std::size_t position = headroom::plugin::checked_index("output", index, signature_.outputs.size());
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
  OrtKeyValuePairs* made = nullptr;
  runtime_->check(newer->AllocatorGetStats(allocator_.get(), &made));
  const Owned<OrtKeyValuePairs> pairs(made, newer->ReleaseKeyValuePairs);
  const auto figure = [&](const char* key) -> int64_t {
    const char* text = newer->GetKeyValue(made, key);
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
  const auto options = create_run_options(*runtime_);
  const std::string arenas = device_ ? "cpu:0;gpu:" + std::to_string(device_->ordinal()) : "cpu:0";
  runtime_->check(
      api_.AddRunConfigEntry(options.get(), "memory.enable_memory_arena_shrinkage", arenas.c_str()));
  outputs_.release();  // these outputs are not read, and live ones would pin their region of the arena
  runtime_->check(api_.RunWithBinding(session_.get(), options.get(), binding_.get()));
  outputs_.release();
}
