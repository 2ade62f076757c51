#include "inference/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "inference/plugin/plugin_failure.h"

namespace headroom::inference {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kOutOfMemory = "out of memory";

// Converts a plug-in's error: `what` failed, and `why` is the plug-in's message.
tl::unexpected<Error> plugin_error(std::string what, hr_error& error) {
  error.message[sizeof error.message - 1] = '\0';
  std::string why = error.message;
  switch (error.kind) {
    case HR_ERROR_OUT_OF_MEMORY:
      return failure(std::move(what),
                     why.empty() ? std::string(kOutOfMemory) : fmt::format("{}: {}", kOutOfMemory, why));
    case HR_ERROR_UNAVAILABLE:
      return input_error(std::move(what), std::move(why));
    default:
      return failure(std::move(what), why.empty() ? "the backend gave no reason" : std::move(why));
  }
}

bool has_required_functions(const hr_backend& api) {
  return api.name != nullptr && api.extensions != nullptr && api.start != nullptr && api.stop != nullptr &&
         api.version != nullptr && api.load != nullptr && api.unload != nullptr && api.describe != nullptr &&
         api.bind_input != nullptr && api.run != nullptr && api.output != nullptr &&
         api.memory_stats != nullptr && api.trim != nullptr;
}

bool supports_devices(const hr_backend& api) {
  return api.struct_size >= HEADROOM_BACKEND_DEVICE_TABLE && api.prepare_device != nullptr &&
         api.placement != nullptr && api.run_facts != nullptr;
}

TensorSpec to_spec(const hr_tensor_spec& spec) {
  TensorSpec tensor;
  tensor.name = spec.name == nullptr ? "" : spec.name;
  tensor.type = static_cast<ElementType>(spec.element_type);
  for (std::int32_t i = 0; i < spec.rank; ++i) {
    tensor.dims.push_back(spec.dims[i]);
    tensor.dim_names.emplace_back(
        spec.dim_names == nullptr || spec.dim_names[i] == nullptr ? "" : spec.dim_names[i]);
  }
  return tensor;
}

std::optional<Bytes> bytes_if_known(std::int64_t count) {
  return count < 0 ? std::nullopt : std::optional(Bytes{count});
}
std::optional<std::int64_t> count_if_known(std::int64_t count) {
  return count < 0 ? std::nullopt : std::optional(count);
}

// For a plug-in with the interface of another version of Headroom.
std::string fix_for_interface(const std::string& name) {
  if (name == "tensorrt" || name == "libtorch") return "run headroom build-plugin " + name;
  return "build the plug-in with this Headroom's inference/backend_plugin.h";
}

}  // namespace

Status check_model_file(const fs::path& path) {
  const std::string what = fmt::format("cannot open model {}", path.string());
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return input_error(what, error ? error.message() : "no such file", "check the path");
  if (fs::is_directory(status)) return input_error(what, "it is a folder", "give the model file inside it");
  if (!fs::is_regular_file(status))  // opening it could block forever
    return input_error(
        what, fmt::format("it is {}, not a file", fs::is_fifo(status) ? "a FIFO" : "a device or socket"),
        "give the path of a file");
  const auto size = fs::file_size(path, error);
  if (!error && size == 0) return input_error(what, "the file is empty", "copy or export the model again");
  if (::access(path.c_str(), R_OK) != 0)
    return input_error(what, errno_text(errno), "check the file's permissions");
  return {};
}

bool is_out_of_memory(const Error& error) {
  return error.kind == ErrorKind::failed && error.why.starts_with(kOutOfMemory);
}

Result<Backend> Backend::open(const BackendFile& file) {
  const std::string what = fmt::format("cannot use the backend plug-in {}", file.path.string());
  // RTLD_LOCAL, because two runtimes may bring different versions of the same libraries.
  void* library = ::dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return input_error(what, plugin::last_dl_error());
  const auto entry = reinterpret_cast<hr_backend_function>(::dlsym(library, HEADROOM_BACKEND_SYMBOL));
  if (entry == nullptr)
    return input_error(what, fmt::format("it does not export {}()", HEADROOM_BACKEND_SYMBOL),
                       "build it as described in docs/how-to-add-a-backend.md");
  const hr_backend* api = entry();
  if (api == nullptr) return input_error(what, fmt::format("{}() returned null", HEADROOM_BACKEND_SYMBOL));
  if (api->abi_version != HEADROOM_BACKEND_ABI)
    return input_error(what,
                       fmt::format("its plug-in interface has version {}, but this Headroom needs version {}",
                                   api->abi_version, HEADROOM_BACKEND_ABI),
                       fix_for_interface(file.name));
  if (api->struct_size < HEADROOM_BACKEND_SMALLEST_TABLE)
    return input_error(what,
                       fmt::format("its function table has {} bytes, but this Headroom needs {}",
                                   api->struct_size, HEADROOM_BACKEND_SMALLEST_TABLE),
                       fix_for_interface(file.name));
  if (!has_required_functions(*api))
    return input_error(what, "its function table has null entries", "define every required function");
  return Backend(api);
}

Backend::Backend(const hr_backend* api) : api_(api, [](const hr_backend*) {}) {}

std::string Backend::version() const {
  const char* version = api_->version();
  return version == nullptr ? "" : version;
}

Status Backend::start() {
  hr_error error{};
  if (api_->start(&error) != 0) return plugin_error(fmt::format("cannot start {}", api_->name), error);
  // From here on, the runtime stops when this object and all its sessions are gone.
  api_ = std::shared_ptr<const hr_backend>(api_.get(), [](const hr_backend* api) { api->stop(); });
  return {};
}

Result<cuda::DeviceFacts> Backend::prepare_device(const std::string& device) {
  const std::string what = fmt::format("{} cannot use {}", name(), device);
  if (!supports_devices(*api_))
    return input_error(what, "this backend runs on the CPU only", "use --device cpu, or another backend");
  hr_device_facts facts{};
  facts.struct_size = sizeof facts;
  hr_error error{};
  if (api_->prepare_device(device.c_str(), &facts, &error) != 0) return plugin_error(what, error);
  facts.name[sizeof facts.name - 1] = facts.uuid[sizeof facts.uuid - 1] = '\0';
  return cuda::DeviceFacts{facts.name, facts.uuid, Bytes{facts.total_bytes}, facts.is_integrated != 0};
}

Status Backend::make_arena(Bytes size) {
  const std::string what = fmt::format("{} cannot create an arena of {}", name(), format_bytes(size));
  if (api_->struct_size < HEADROOM_BACKEND_ARENA_TABLE || api_->make_arena == nullptr)
    return input_error(what, "its sessions cannot share an arena");
  hr_error error{};
  if (api_->make_arena(size.count, &error) != 0) return plugin_error(what, error);
  return {};
}

Result<Session> Backend::load(const fs::path& model, const RuntimeSettings& settings, bool in_turns) {
  if (auto readable = check_model_file(model); !readable) return forward_error(readable);
  hr_settings wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.device = settings.device.c_str();
  wanted.threads = settings.threads;
  wanted.arena = settings.arena ? 1 : 0;
  wanted.arena_same_as_requested = settings.arena_extend == ArenaExtend::same_as_requested ? 1 : 0;
  wanted.memory_pattern = settings.memory_pattern ? 1 : 0;
  wanted.prepacking = settings.prepacking ? 1 : 0;
  wanted.graph_level = settings.graph_level;
  wanted.spinning = !settings.spinning ? 0 : in_turns ? 2 : 1;
  wanted.conv_search = static_cast<std::int32_t>(settings.conv_search);
  wanted.conv_small_workspace = settings.conv_small_workspace ? 1 : 0;
  wanted.device_graph = settings.device_graph ? 1 : 0;
  wanted.precision = static_cast<std::int32_t>(settings.precision);
  wanted.shared_arena_bytes = settings.shared_arena.count;
  wanted.mapped = settings.mapped ? 1 : 0;
  hr_session* loaded = nullptr;
  hr_error error{};
  if (api_->load(model.c_str(), &wanted, &loaded, &error) != 0)
    return plugin_error(fmt::format("{} cannot load {}", name(), model.string()), error);
  Session session(api_, loaded, model.filename().string());
  if (auto described = session.read_description(); !described) return forward_error(described);
  return session;
}

Session::Session(std::shared_ptr<const hr_backend> backend, hr_session* session, std::string model)
    : backend_(std::move(backend)), session_(session, Unload{backend_}), model_(std::move(model)) {}

Status Session::read_description() {
  hr_description described{};
  described.struct_size = sizeof described;
  hr_error error{};
  if (backend_->describe(session_.get(), &described, &error) != 0)
    return plugin_error(fmt::format("{} cannot describe {}", backend_->name, model_), error);
  description_ = {};
  knows_outputs_ = described.output_count >= 0;
  for (std::int32_t i = 0; i < described.input_count; ++i)
    description_.inputs.push_back(to_spec(described.inputs[i]));
  for (std::int32_t i = 0; i < described.output_count; ++i)
    description_.outputs.push_back(to_spec(described.outputs[i]));
  for (std::int32_t i = 0; i < described.metadata_count; ++i)
    description_.metadata.emplace_back(described.metadata_keys[i], described.metadata_values[i]);
  return {};
}

void Session::assume_outputs(std::vector<TensorSpec> outputs) {
  description_.outputs = std::move(outputs);
  knows_outputs_ = true;
}

Status Session::bind_input(std::size_t index, void* data, std::size_t bytes, ElementType type,
                           const std::vector<std::int64_t>& dims) {
  const hr_tensor tensor{data, bytes, static_cast<std::int32_t>(type), static_cast<std::int32_t>(dims.size()),
                         dims.data()};
  hr_error error{};
  if (backend_->bind_input(session_.get(), static_cast<std::int32_t>(index), &tensor, &error) != 0)
    return plugin_error(fmt::format("cannot bind an input of {}", model_), error);
  return {};
}

bool Session::can_link() const {
  return backend_->struct_size >= sizeof(hr_backend) && backend_->link_input != nullptr;
}

Status Session::link_input(std::size_t index, Session& from, std::size_t output) {
  const std::string what = fmt::format("cannot pass an output of {} to {}", from.model_, model_);
  if (!can_link() || from.backend_->link_input != backend_->link_input)
    return failure(what, fmt::format("{} does not share tensors between these models", backend_->name));
  hr_error error{};
  if (backend_->link_input(session_.get(), static_cast<std::int32_t>(index), from.session_.get(),
                           static_cast<std::int32_t>(output), &error) != 0)
    return plugin_error(what, error);
  return {};
}

Status Session::run() {
  hr_error error;  // not zeroed: it has 1 KiB, and this call is measured
  error.kind = HR_ERROR_FAILED;
  error.message[0] = '\0';
  if (backend_->run(session_.get(), &error) != 0)
    return plugin_error(fmt::format("{} cannot run {}", backend_->name, model_), error);
  return {};
}

Status Session::outputs(std::vector<TensorView>& views) {
  views.resize(description_.outputs.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    hr_tensor tensor{};
    hr_error error;
    error.kind = HR_ERROR_FAILED;
    error.message[0] = '\0';
    if (backend_->output(session_.get(), static_cast<std::int32_t>(i), &tensor, &error) != 0)
      return plugin_error(fmt::format("cannot read output {} of {}", description_.outputs[i].name, model_),
                          error);
    views[i] = {tensor.data, static_cast<ElementType>(tensor.element_type), tensor.dims,
                static_cast<std::size_t>(tensor.rank)};
  }
  return {};
}

std::optional<Nanoseconds> Session::device_time() const {
  if (!supports_devices(*backend_)) return std::nullopt;
  hr_run_facts facts{sizeof facts, -1};
  backend_->run_facts(session_.get(), &facts);
  return facts.device_time_ns < 0 ? std::nullopt : std::optional(Nanoseconds{facts.device_time_ns});
}

std::optional<NodePlacement> Session::placement() {
  if (!supports_devices(*backend_)) return std::nullopt;
  hr_placement placement{};
  placement.struct_size = sizeof placement;
  placement.nodes_on_device = -1;
  hr_error error{};
  if (backend_->placement(session_.get(), &placement, &error) != 0 || placement.nodes_on_device < 0)
    return std::nullopt;
  placement.elsewhere[sizeof placement.elsewhere - 1] = '\0';
  return NodePlacement{placement.nodes_on_device, placement.nodes_elsewhere, placement.elsewhere};
}

MemoryStats Session::memory_stats() {
  hr_memory_stats stats{sizeof stats, -1, -1, -1, -1, -1};
  hr_error error{};
  if (backend_->memory_stats(session_.get(), &stats, &error) != 0) return {};
  return {bytes_if_known(stats.arena_in_use), bytes_if_known(stats.arena_total),
          bytes_if_known(stats.arena_peak), count_if_known(stats.allocations),
          count_if_known(stats.arena_extensions)};
}

bool Session::can_share() const {
  return backend_->struct_size >= HEADROOM_BACKEND_SHARE_TABLE && backend_->share != nullptr;
}

Result<Session> Session::share() const {
  const std::string what = fmt::format("cannot share the weights of {}", model_);
  if (!can_share()) return failure(what, fmt::format("{} does not support shared weights", backend_->name));
  hr_session* shared = nullptr;
  hr_error error{};
  if (backend_->share(session_.get(), &shared, &error) != 0) return plugin_error(what, error);
  Session session(backend_, shared, model_);
  if (auto described = session.read_description(); !described) return forward_error(described);
  if (!session.knows_outputs_ && knows_outputs_) session.assume_outputs(description_.outputs);
  return session;
}

Status Session::trim() {
  hr_error error{};
  if (backend_->trim(session_.get(), &error) != 0)
    return plugin_error(fmt::format("{} cannot release the cached memory of {}", backend_->name, model_),
                        error);
  return {};
}

}  // namespace headroom::inference
