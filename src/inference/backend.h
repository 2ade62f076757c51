// Model runtimes behind one interface. A backend is a plug-in found at run time; nothing here links one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "inference/backend_plugin.h"
#include "model/runtime_settings.h"
#include "model/tensor.h"

namespace headroom::inference {

// A plug-in that lies where Headroom looks, not yet loaded.
struct BackendFile {
  std::string name;  // "onnxruntime", from libheadroom_backend_onnxruntime.so
  std::filesystem::path path;
};

// Plug-ins in the folders of HEADROOM_BACKEND_PATH (colon-separated), beside the executable, and in
// ../lib/headroom of it, in that order; the first of a name wins.
std::vector<BackendFile> find_backend_files();

// The backends that can open files of this extension (".onnx"), best first: TensorRT > ONNX Runtime >
// LibTorch. Empty for an extension that no known backend reads.
std::vector<std::string> backends_for_extension(std::string_view extension);

// Chooses the plug-in for a model that is to run on `device`: `forced` if not empty, else by extension and
// availability. TensorRT runs an ONNX model only as the engine that was built of it and lies beside it, and
// on a GPU; elsewhere the next one is chosen, if there is one. The error says which were looked for, where,
// and how to get one.
Result<BackendFile> choose_backend(const std::filesystem::path& model, std::string_view forced,
                                   std::string_view device);

// The same, and those that are to be tried after it where it cannot be loaded (a TensorRT plug-in on a
// machine without TensorRT). At least one; of a forced one no more.
Result<std::vector<BackendFile>> choose_backends(const std::filesystem::path& model, std::string_view forced,
                                                 std::string_view device);

struct MemoryStats {
  std::optional<Bytes> arena_in_use, arena_total, arena_peak;
  std::optional<std::int64_t> allocations, arena_extensions;
};

// A device as a backend knows it.
struct DeviceFacts {
  std::string name, uuid;  // "NVIDIA H200", "GPU-…"; empty where it is not known
  Bytes total;
  bool is_integrated = false;
};

// Where the nodes of a model's graph run, if the runtime says.
struct NodeCounts {
  int on_device = 0, elsewhere = 0;
  std::string elsewhere_text;  // "Shape x3, Gather"
};

class Backend;

// A loaded model. Bind inputs once, then run() any number of times; output views stay valid until the next
// run, trim or bind_input. One thread at a time.
class Session {
 public:
  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;
  Session(const Session&) = delete;
  ~Session();

  const ModelDescription& description() const { return description_; }
  // False where the runtime tells the outputs only once the model has run (TorchScript); until then the
  // description has none.
  bool knows_outputs() const { return knows_outputs_; }
  // After a run: reads them from the runtime.
  Status learn_outputs() { return read_description(); }
  // As another process learnt them of the same model.
  void assume_outputs(std::vector<TensorSpec> outputs);
  // `data` must stay valid and in place until it is bound anew; dims are concrete.
  Status bind_input(std::size_t index, void* data, std::size_t bytes, ElementType type,
                    const std::vector<std::int64_t>& dims);
  // Runs the model on what the bound memory holds now. Adds no allocation to those of the runtime.
  Status run();
  // After run(): refreshes `views` in place (no allocation once it has the size of the outputs). An output
  // that has no plain numbers (strings, sequences) is a view without data.
  Status outputs(std::vector<TensorView>& views);
  // The last run's time on the device, from the first copy to it to the last one back, by its own clock.
  // Absent on the CPU.
  std::optional<Nanoseconds> device_time() const;
  // Absent on the CPU, and where the runtime does not say.
  std::optional<NodeCounts> placement();
  // What the runtime says of its own memory; absent where it does not.
  MemoryStats memory_stats();
  // Gives cached memory back to the system as far as the runtime can. It may run the model once on the bound
  // inputs (ONNX Runtime shrinks its arena only at the end of a run).
  Status trim();
  // Another session of the loaded model: the same weights, inputs and outputs of its own. It may run while
  // this one does, and be made while this one runs; either may end first.
  bool can_share() const;
  Result<Session> share() const;

 private:
  friend class Backend;
  friend Result<Session> load_isolated(const BackendFile& backend, const std::filesystem::path& model,
                                       const RuntimeSettings& settings, Nanoseconds load_timeout);
  Session(std::shared_ptr<const hr_backend> backend, hr_session* session, std::string model);
  Status read_description();
  std::shared_ptr<const hr_backend> backend_;
  hr_session* session_ = nullptr;
  std::string model_;  // file name, for errors
  ModelDescription description_;
  bool knows_outputs_ = true;
};

// A loaded plug-in; it stays in the process once opened. An error with ErrorKind::failed whose `why` begins
// with "out of memory" marks a refused allocation; see is_out_of_memory().
class Backend {
 public:
  // dlopens the plug-in and checks its interface version.
  static Result<Backend> open(const BackendFile& file);
  std::string_view name() const { return api_->name; }
  std::string version() const;
  // Loads the runtime (its library and environment). It stops with the last of this object and its sessions.
  Status start();
  // After start(), before a model is loaded for "cuda:N": its context. An error names what is missing.
  Result<DeviceFacts> prepare_device(const std::string& device);
  // After start(), before a model is loaded: the arena of RuntimeSettings::shared_arena, all of it in place.
  Status make_arena(Bytes size);
  // After start(). Checks the file first: absent, a folder, empty and unreadable are ErrorKind::input.
  Result<Session> load(const std::filesystem::path& model, const RuntimeSettings& settings);

 private:
  explicit Backend(const hr_backend* api);
  std::shared_ptr<const hr_backend> api_;
};

// True if a backend's error means that an allocation was refused.
bool is_out_of_memory(const Error& error);

}  // namespace headroom::inference
