// An engine's file, and the record next to it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace headroom::tensorrt {

// The parts of an engine file. Some tools write metadata in front of the engine.
struct EngineParts {
  std::string_view engine;
  // Metadata of a file exported by Ultralytics: "task", "names", "imgsz", …
  std::vector<std::pair<std::string, std::string>> metadata;
};
// Splits a file. Ultralytics writes four bytes with the length of a JSON text, the text, then the engine.
// Any other file is an engine as a whole.
EngineParts parts_of(std::string_view file);

// A read-only mapping of a file. It avoids a second copy in memory, because TensorRT copies the engine
// anyway.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  std::string_view bytes() const { return {memory_.get(), memory_.get_deleter().bytes}; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(char* memory) const;
  };
  explicit MappedFile(std::unique_ptr<char, Unmap> memory) : memory_(std::move(memory)) {}
  std::unique_ptr<char, Unmap> memory_;
};

// The record next to a TensorRT engine: the machine, the versions, the settings and the model that it was
// built with. An engine is machine code for one GPU model and one TensorRT version. The record lets
// Headroom reject an engine from another machine, or an engine whose model has changed, with a clear reason.
// Without the record, such an engine would fail, or Headroom would report figures of an outdated model.

// The machine that an engine was built on. Unknown texts are empty.
struct EngineMachine {
  std::string gpu;                 // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  std::string uuid;                // "GPU-…"
  std::string driver_version;      // "580.159.04"
  std::string cuda_version;        // CUDA version that the driver supports: "13.0"
  std::string tensorrt_version;    // "10.16.1"
};

struct EngineSettings {
  std::string precision = "fp32";  // name_of(Precision)
  int image_size = 640;            // for dynamic sides of the inputs
  Bytes workspace;                 // 0: TensorRT's default limit
  friend bool operator==(const EngineSettings& a, const EngineSettings& b) {
    return a.precision == b.precision && a.image_size == b.image_size && a.workspace == b.workspace;
  }
  friend bool operator!=(const EngineSettings& a, const EngineSettings& b) { return !(a == b); }
};

// The state of a file when the engine was built. If the modification time is unchanged, the file is not
// read again.
struct FileState {
  std::string fingerprint;  // file_fingerprint()
  Bytes bytes;
  std::int64_t modified_ns = 0;
};
Result<FileState> state_of(const std::filesystem::path& file);

struct EngineRecord {
  std::string headroom_version, created_at;
  EngineMachine machine;
  EngineSettings settings;
  std::string model_path;  // absolute
  FileState model, engine;
  std::vector<std::string> inputs;  // "images float32[1,3,640,640]"
};

// "model.engine.json" of "model.engine".
std::filesystem::path record_path(const std::filesystem::path& engine);
// The default output of `headroom build-engine`: "model.engine" for "model.onnx".
std::filesystem::path engine_path(const std::filesystem::path& model);

nlohmann::ordered_json to_json(const EngineRecord& record);
Status write_record(const std::filesystem::path& engine, const EngineRecord& record);
// Returns nothing if there is no record: Headroom did not build the engine, and only TensorRT can check
// it.
Result<std::optional<EngineRecord>> read_record(const std::filesystem::path& engine);

// Returns why the engine cannot run on `here`, or nothing. TensorRT's full version, the GPU's name and its
// compute capability must match. Another GPU of the same name and another driver are compatible.
std::optional<std::string> why_incompatible(const EngineRecord& record, const EngineMachine& here);
// Returns why the engine no longer matches its record, or nothing: the engine file or its model was
// changed. A missing model is not an error.
Result<std::optional<std::string>> why_stale(const EngineRecord& record, const std::filesystem::path& engine);

}  // namespace headroom::tensorrt
