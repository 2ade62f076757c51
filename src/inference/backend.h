// One interface for all model runtimes. A backend is a plug-in (a shared library) that Headroom finds and
// opens at run time, so the main program links no runtime.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/driver.h"
#include "inference/backend_plugin.h"
#include "types/bench_result.h"
#include "types/runtime_settings.h"
#include "types/tensor.h"

namespace headroom::inference {

// A plug-in file that the search found. It is not loaded yet.
struct BackendFile {
  std::string name;  // "onnxruntime", from libheadroom_backend_onnxruntime.so
  std::filesystem::path path;
};

// Finds all plug-ins in plugin_folders() (base/files.h). If a name occurs twice, the first one wins.
std::vector<BackendFile> find_backend_files();

// The backends that Headroom knows, in order of preference. `how_to_get` is the fix if it is not installed.
struct KnownBackendHint {
  std::string_view name, how_to_get;
};
std::vector<KnownBackendHint> known_backends();

// The backends that can open files with this extension (".onnx"), best first: TensorRT > ONNX Runtime >
// LibTorch. Empty if no known backend reads the extension.
std::vector<std::string> backends_for_extension(std::string_view extension);

// Chooses the plug-in that runs `model` on `device`: `forced` if it is not empty, else the best installed
// one for the file's extension.
//
// For an ONNX model, TensorRT needs a GPU and an engine next to the model (MODEL.engine for MODEL.onnx).
// Without these, the next plug-in is chosen; if there is none, TensorRT is chosen anyway.
//
// The error names the missing plug-ins, the searched folders and how to get a plug-in.
Result<BackendFile> choose_backend(const std::filesystem::path& model, std::string_view forced,
                                   std::string_view device);

// Like choose_backend(), but also returns the fallbacks, in order. A fallback is used when the first plug-in
// cannot be loaded (TensorRT's plug-in on a machine without TensorRT). Returns exactly one plug-in if
// `forced` is set.
Result<std::vector<BackendFile>> choose_backends(const std::filesystem::path& model, std::string_view forced,
                                                 std::string_view device);

// Memory figures of the runtime's allocator. A figure that the runtime does not report is absent.
struct MemoryStats {
  std::optional<Bytes> arena_in_use, arena_total, arena_peak;
  std::optional<std::int64_t> allocations, arena_extensions;
};

class Backend;

// A loaded model. Bind the inputs once, then call run() any number of times. Output views stay valid until
// the next run(), trim() or bind_input(). Only one thread at a time may use a session.
class Session {
 public:
  const ModelDescription& description() const { return description_; }
  // False if the runtime reports the outputs only after the first run (TorchScript). Until then, the
  // description has no outputs.
  bool knows_outputs() const { return knows_outputs_; }
  // Reads the description of the outputs from the runtime. Call it after the first run if knows_outputs() is
  // false.
  Status learn_outputs() { return read_description(); }
  // Sets the description of the outputs, which another process learnt from a run of the same model.
  void assume_outputs(std::vector<TensorSpec> outputs);
  // `data` must stay valid, at the same address, until the next bind_input() of this input. All dims must be
  // concrete.
  Status bind_input(std::size_t index, void* data, std::size_t bytes, ElementType type,
                    const std::vector<std::int64_t>& dims);
  // Makes output `output` of `from` this model's input `index`, without a copy: each run reads what the last
  // run of `from` left, on the device or the host. `from` must have run, run on the same device, and outlive
  // the link, which the next bind_input() of this input ends. On a device, `from` no longer copies this
  // output to the host, so its view has no data.
  bool can_link() const;
  Status link_input(std::size_t index, Session& from, std::size_t output);
  // Runs the model on the current content of the bound memory. Headroom adds no allocation to those of the
  // runtime.
  Status run();
  // Refreshes `views` after run(). Allocates nothing once `views` has one element per output. An output that
  // is not a tensor of numbers (strings, sequences) becomes a view without data.
  Status outputs(std::vector<TensorView>& views);
  // Time of the last run by the device's clock, from the first copy to the device to the last copy back.
  // Absent on the CPU.
  std::optional<Nanoseconds> device_time() const;
  // Absent on the CPU, and if the runtime does not report it.
  std::optional<NodePlacement> placement();
  MemoryStats memory_stats();
  // Releases cached memory to the system, as far as the runtime can. May run the model once on the bound
  // inputs, because ONNX Runtime shrinks its arena only at the end of a run.
  Status trim();
  // Creates another session that shares the weights of this one and has its own inputs and outputs. Both may
  // run at the same time, share() may be called during a run, and either session may end first.
  bool can_share() const;
  Result<Session> share() const;

 private:
  friend class Backend;
  friend Result<Session> load_isolated(const BackendFile& backend, const std::filesystem::path& model,
                                       const RuntimeSettings& settings, Nanoseconds load_timeout);
  Session(std::shared_ptr<const hr_backend> backend, hr_session* session, std::string model);
  Status read_description();
  struct Unload {
    std::shared_ptr<const hr_backend> backend;
    void operator()(hr_session* session) const { backend->unload(session); }
  };
  std::shared_ptr<const hr_backend> backend_;
  std::unique_ptr<hr_session, Unload> session_;
  std::string model_;  // file name, for error messages
  ModelDescription description_;
  bool knows_outputs_ = true;
};

// A loaded plug-in. Once opened, it stays in the process. An error with ErrorKind::failed whose `why` begins
// with "out of memory" means that an allocation was refused; see is_out_of_memory().
class Backend {
 public:
  // dlopens the plug-in and checks its interface version.
  static Result<Backend> open(const BackendFile& file);
  std::string_view name() const { return api_->name; }
  std::string version() const;
  // Loads the runtime (its library and environment). The runtime stops when this object and all its sessions
  // are gone.
  Status start();
  // Creates the context of "cuda:N". Call it after start() and before a model is loaded for the device. The
  // error names what is missing.
  Result<cuda::DeviceFacts> prepare_device(const std::string& device);
  // Allocates the arena of RuntimeSettings::shared_arena and touches all its pages. Call it after start() and
  // before a model is loaded.
  Status make_arena(Bytes size);
  // Loads a model. Call it after start(). A missing, empty or unreadable file, or a folder, is an
  // ErrorKind::input. `in_turns`: other models of this process run right after it, so its threads must not
  // spin on the cores after a run.
  Result<Session> load(const std::filesystem::path& model, const RuntimeSettings& settings,
                       bool in_turns = false);

 private:
  explicit Backend(const hr_backend* api);
  std::shared_ptr<const hr_backend> api_;
};

// True if a backend's error means that an allocation was refused.
bool is_out_of_memory(const Error& error);

// Rejects a missing, empty or unreadable file. Runtimes report these cases badly or crash.
Status check_model_file(const std::filesystem::path& path);

// Runs a model in a separate process. If that process crashes, even by a signal, this process continues and
// gets an error. Unloading the model ends the process, so all its memory returns to the system. Inputs and
// outputs are copied through memory that both processes map.
//
// Starts a process (headroom_model_process, from the plug-ins' folders), which loads the model with this
// plug-in. The load and the first two runs must end within `load_timeout`; otherwise the process is killed.
// Later runs have no timeout. If the process dies, the current run and all later runs fail.
//
// The result is an ordinary Session with three restrictions: it cannot share weights, it reports neither
// device time nor placement, and it has no inputs or outputs of strings.
Result<Session> load_isolated(const BackendFile& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, Nanoseconds load_timeout);

// The process ids of the running model processes that this process started.
std::vector<pid_t> isolated_processes();

}  // namespace headroom::inference
