// load_isolated(): a session whose model runs in another process.
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/subprocess.h"
#include "inference/backend.h"
#include "inference/isolated/isolated_messages.h"
#include "inference/plugin/plugin_failure.h"
#include "inference/signature_tables.h"

namespace headroom::inference {
namespace {
namespace fs = std::filesystem;

constexpr const char* kProgram = "headroom_model_process";
// A model process whose socket was closed exits within this time, or it hangs.
constexpr Nanoseconds kExitTimeout{1'000'000'000};
constexpr int kFirstRuns = 2;  // warm-up runs; they count as part of the load
constexpr Nanoseconds kLeastTimeout{1'000'000};

struct RunningProcesses {
  std::mutex mutex;
  std::vector<pid_t> pids;
};

// Never destroyed, because a session may outlive main().
RunningProcesses& running_processes() {
  static auto* const processes = new RunningProcesses;
  return *processes;
}

void forget_process(pid_t pid) {
  const std::lock_guard lock(running_processes().mutex);
  std::erase(running_processes().pids, pid);
}

Result<fs::path> find_program(const BackendFile& backend) {
  fs::path beside = backend.path.parent_path() / kProgram;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  if (auto found = find_plugin(kProgram)) return std::move(*found);
  return input_error(fmt::format("cannot start {}", kProgram),
                     fmt::format("not found in {}, {}", beside.parent_path().string(), plugin_folders_text()),
                     "put it next to the plug-ins, or set HEADROOM_BACKEND_PATH to its folder");
}

// Checks an input when it is bound, so that the error comes before the run. If the runtime does not report
// an input's dimensions, any dimensions are accepted.
bool fits_specification(const TensorSpec& input, ElementType type, const std::vector<std::int64_t>& dims) {
  if (input.type != ElementType::unknown && input.type != type) return false;
  if (input.dims.empty()) return true;
  return std::equal(input.dims.begin(), input.dims.end(), dims.begin(), dims.end(),
                    [](std::int64_t known, std::int64_t given) { return known < 0 || known == given; });
}

struct Input {
  void* data = nullptr;
  PlacedTensor placed;
};

// Behind hr_session: the connection to one model process.
class ModelProcess {
 public:
  static Result<std::unique_ptr<ModelProcess>> start(const BackendFile& backend);
  ~ModelProcess() {
    forget_process(process_.pid());
    channel_.close();
    process_.signal(SIGKILL);
    process_.wait();
  }

  Status load(const BackendFile& backend, const fs::path& model, const RuntimeSettings& settings,
              Nanoseconds timeout);
  Status bind(std::size_t index, const hr_tensor& tensor);
  Status run();
  Status trim();
  // Call it after run(). Returns false if there is no such output.
  bool output(std::size_t index, hr_tensor& tensor);
  void describe(hr_description& description);

 private:
  Result<Json> ask(const Json& request, std::optional<Nanoseconds> timeout);
  // Waits for the process, kills it if it hangs, and returns why it ended.
  std::string describe_end();
  void take_description(const Json& answer);

  Subprocess process_;
  MessageChannel channel_;
  SharedTensors in_, out_;
  std::vector<Input> inputs_;
  std::vector<PlacedTensor> outputs_;
  bool inputs_changed_ = true;
  int runs_ = 0;
  Nanoseconds first_runs_until_;
  std::string ended_;  // why the process ended; empty: it is running
  ModelDescription description_;
  bool knows_outputs_ = false;
  SignatureTables tables_;  // of description_
};

Result<std::unique_ptr<ModelProcess>> ModelProcess::start(const BackendFile& backend) {
  auto program = find_program(backend);
  if (!program) return forward_error(program);
  auto started = std::make_unique<ModelProcess>();
  auto in = SharedTensors::create("headroom-inputs"), out = SharedTensors::create("headroom-outputs");
  if (!in) return forward_error(in);
  if (!out) return forward_error(out);
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return internal_error("cannot create a socket to a model process", errno_text(errno));
  const UniqueFd child_end(sockets[1]);
  started->channel_ = MessageChannel(UniqueFd(sockets[0]));
  started->in_ = std::move(*in);
  started->out_ = std::move(*out);
  SpawnOptions options;
  options.command = {program->string()};
  options.stdout_fd = STDERR_FILENO;
  options.inherited = {
      {child_end.get(), kChannelFd}, {started->in_.fd(), kInputsFd}, {started->out_.fd(), kOutputsFd}};
  // The parent-death signal would come when the thread that started the process ends. The process watches
  // its socket instead.
  options.die_with_parent = false;
  auto process = Subprocess::spawn(options);
  if (!process) return forward_error(process);
  started->process_ = std::move(*process);
  const std::lock_guard lock(running_processes().mutex);
  running_processes().pids.push_back(started->process_.pid());
  return started;
}

std::string ModelProcess::describe_end() {
  if (!ended_.empty()) return ended_;
  const auto status = process_.wait_for(kExitTimeout);
  if (!status) process_.signal(SIGKILL);
  ended_ = status ? fmt::format("its process ended with {}", status->describe())
                  : std::string("its process stopped responding and was killed");
  process_.wait();
  forget_process(process_.pid());
  return ended_;
}

Result<Json> ModelProcess::ask(const Json& request, std::optional<Nanoseconds> timeout) {
  const std::string what = "a model process failed";
  if (!ended_.empty()) return failure(what, ended_);
  if (!channel_.send(request)) return failure(what, describe_end());
  auto answer = channel_.receive(timeout);
  if (!answer) return failure(what, describe_end());
  if (!*answer) {
    process_.signal(SIGKILL);
    describe_end();
    ended_ = fmt::format("its process did not respond for {} and was killed", format_duration(*timeout));
    return failure(what, ended_);
  }
  if (!(*answer)->contains("why")) return std::move(**answer);
  std::string why = get_text(**answer, "why");
  const bool refused = get_bool(**answer, "out_of_memory").value_or(false);
  return failure(what, refused ? "out of memory: " + why : std::move(why));
}

Status ModelProcess::load(const BackendFile& backend, const fs::path& model, const RuntimeSettings& settings,
                          Nanoseconds timeout) {
  first_runs_until_ = monotonic_now() + timeout;
  auto answer = ask({{"do", "load"},
                     {"backend", backend.name},
                     {"plugin", fs::absolute(backend.path).string()},
                     {"path", fs::absolute(model).string()},
                     {"settings", to_json(settings)}},
                    timeout);
  if (!answer) return forward_error(answer);
  take_description(*answer);
  inputs_.resize(description_.inputs.size());
  return {};
}

void ModelProcess::take_description(const Json& answer) {
  description_ = description_from_json(get_member(answer, "description"));
  knows_outputs_ = get_bool(answer, "outputs_known").value_or(false);
}

Status ModelProcess::bind(std::size_t index, const hr_tensor& tensor) {
  if (!ended_.empty()) return failure("a model process failed", ended_);
  if (index >= inputs_.size()) return failure("no such input", std::to_string(index));
  const auto type = static_cast<ElementType>(tensor.element_type);
  if (size_of(type) == 0)
    return failure("an isolated model cannot take this input", "it is not a tensor of plain numbers");
  std::vector<std::int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
  if (!fits_specification(description_.inputs[index], type, dims))
    return failure("an input does not fit the model",
                   fmt::format("the model takes {}", description_.inputs[index].describe()));
  if (static_cast<std::size_t>(element_count(dims)) * size_of(type) != tensor.bytes)
    return failure("an input's size does not match its dimensions and type", std::to_string(tensor.bytes));
  inputs_[index] = {tensor.data, {type, std::move(dims), 0, tensor.bytes}};
  inputs_changed_ = true;
  return {};
}

Status ModelProcess::run() {
  Json request;
  request["do"] = "run";
  if (inputs_changed_) {
    request["inputs"] = Json::array();
    std::size_t end = 0;
    for (Input& input : inputs_) {
      if (input.data == nullptr && input.placed.bytes > 0) return failure("an input is not bound");
      input.placed.at = place_tensor(end, input.placed.bytes);
      request["inputs"].push_back(to_json(input.placed));
    }
    if (auto grown = in_.grow(end); !grown) return grown;
  }
  for (const Input& input : inputs_)
    if (input.placed.bytes > 0) std::memcpy(in_.data() + input.placed.at, input.data, input.placed.bytes);
  // The first runs count as part of the load and share its timeout.
  std::optional<Nanoseconds> timeout;
  if (runs_ < kFirstRuns) timeout = std::max(kLeastTimeout, first_runs_until_ - monotonic_now());
  auto answer = ask(request, timeout);
  if (!answer) return forward_error(answer);
  ++runs_;
  inputs_changed_ = false;
  const std::int64_t bytes = get_integer(*answer, "bytes").value_or(0);
  if (auto mapped = out_.follow(bytes < 0 ? 0 : static_cast<std::size_t>(bytes)); !mapped) return mapped;
  outputs_.clear();
  for (const Json& entry : get_member(*answer, "outputs")) {
    auto placed = placed_tensor_from_json(entry, out_.size());
    if (!placed) return forward_error(placed);
    outputs_.push_back(std::move(*placed));
  }
  if (answer->contains("description")) take_description(*answer);
  return {};
}

Status ModelProcess::trim() {
  auto answer = ask(Json::object({{"do", "trim"}}), std::nullopt);
  return answer ? Status{} : forward_error(answer);
}

bool ModelProcess::output(std::size_t index, hr_tensor& tensor) {
  if (index >= outputs_.size()) return false;
  const PlacedTensor& placed = outputs_[index];
  tensor = {placed.bytes == 0 ? nullptr : out_.data() + placed.at, placed.bytes,
            static_cast<std::int32_t>(placed.type), static_cast<std::int32_t>(placed.dims.size()),
            placed.dims.data()};
  return true;
}

void ModelProcess::describe(hr_description& description) {
  tables_ = SignatureTables(description_);
  tables_.fill(description);
  if (!knows_outputs_) description.output_count = -1;
}

// The plug-in interface, implemented by a ModelProcess.

ModelProcess& process_of(hr_session* session) { return *reinterpret_cast<ModelProcess*>(session); }

int report_status(const Status& done, hr_error* error) {
  if (done) return 0;
  constexpr std::string_view kPrefixOfShortage = "out of memory: ";
  std::string why = done.error().why.empty() ? done.error().what : done.error().why;
  error->kind = is_out_of_memory(done.error()) ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED;
  if (why.starts_with(kPrefixOfShortage)) why.erase(0, kPrefixOfShortage.size());
  plugin::copy_text(error->message, why);
  return 1;
}

// A function table with the name of the runtime in the model process, which error messages use.
struct Table {
  std::string name;
  hr_backend api{};
};

// Has only the functions that a session calls.
std::shared_ptr<const hr_backend> table_for(const std::string& name) {
  auto table = std::make_shared<Table>();
  table->name = name;
  hr_backend& api = table->api;
  api.abi_version = HEADROOM_BACKEND_ABI;
  api.struct_size = HEADROOM_BACKEND_SMALLEST_TABLE;
  api.name = table->name.c_str();
  api.unload = [](hr_session* session) { delete &process_of(session); };
  api.describe = [](hr_session* session, hr_description* description, hr_error*) {
    process_of(session).describe(*description);
    return 0;
  };
  api.bind_input = [](hr_session* session, std::int32_t index, const hr_tensor* tensor, hr_error* error) {
    return report_status(process_of(session).bind(static_cast<std::size_t>(index), *tensor), error);
  };
  api.run = [](hr_session* session, hr_error* error) {
    return report_status(process_of(session).run(), error);
  };
  api.output = [](hr_session* session, std::int32_t index, hr_tensor* tensor, hr_error* error) {
    if (process_of(session).output(static_cast<std::size_t>(index), *tensor)) return 0;
    return report_status(failure("no such output"), error);
  };
  api.memory_stats = [](hr_session*, hr_memory_stats*, hr_error*) { return 0; };
  api.trim = [](hr_session* session, hr_error* error) {
    return report_status(process_of(session).trim(), error);
  };
  return {table, &table->api};
}

}  // namespace

Result<Session> load_isolated(const BackendFile& backend, const fs::path& model,
                              const RuntimeSettings& settings, Nanoseconds load_timeout) {
  if (auto readable = check_model_file(model); !readable) return forward_error(readable);
  auto process = ModelProcess::start(backend);
  if (!process) return forward_error(process);
  if (auto loaded = (*process)->load(backend, model, settings, load_timeout); !loaded)
    return failure(fmt::format("{} cannot load {}", backend.name, model.string()), loaded.error().why);
  Session session(table_for(backend.name), reinterpret_cast<hr_session*>(process->release()),
                  model.filename().string());
  if (auto described = session.read_description(); !described) return forward_error(described);
  return session;
}

std::vector<pid_t> isolated_processes() {
  const std::lock_guard lock(running_processes().mutex);
  return running_processes().pids;
}

}  // namespace headroom::inference
