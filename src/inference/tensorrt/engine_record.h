// What is written beside a TensorRT engine: where, with what and of which model it was built. An engine is
// machine code for one model of GPU and one version of TensorRT, so one that comes from elsewhere, or whose
// model has changed since, is refused with that reason instead of failing (or measuring) something else.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom::tensorrt {

// Texts are empty where the machine does not say.
struct EngineMachine {
  std::string gpu;                 // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  std::string uuid;                // "GPU-…"
  std::string driver_version;      // "580.159.04"
  std::string cuda_version;        // of the driver's interface: "13.0"
  std::string tensorrt_version;    // "10.16.1"
};

struct EngineSettings {
  std::string precision = "fp32";  // precision.h
  int image_size = 640;            // for inputs that leave it open
  Bytes workspace;                 // 0: TensorRT's own bound
  friend bool operator==(const EngineSettings&, const EngineSettings&) = default;
};

// A file as it was when the engine was built. The time of change spares reading it again.
struct FileState {
  std::string fingerprint;  // file_fingerprint()
  Bytes bytes;
  std::int64_t modified_ns = 0;
};
Result<FileState> state_of(const std::filesystem::path& file);
// Whether the file is the same still: by size and time, and where the time differs by its content.
Result<bool> is_unchanged(const std::filesystem::path& file, const FileState& state);

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
// The engine that `headroom build-engine` makes of a model if nothing else is asked for: "model.engine" of
// "model.onnx".
std::filesystem::path engine_path(const std::filesystem::path& model);

nlohmann::ordered_json to_json(const EngineRecord& record);
Result<EngineRecord> record_from_json(const nlohmann::ordered_json& document);
Status write_record(const std::filesystem::path& engine, const EngineRecord& record);
// Nothing if there is none beside the engine: it was not built by Headroom, and TensorRT itself must judge
// it.
Result<std::optional<EngineRecord>> read_record(const std::filesystem::path& engine);

// Why the engine cannot run on `here`, or nothing. TensorRT's version (all of it), the GPU's name and its
// compute capability must be the same; another GPU of the same name, and another driver, are not foreign.
std::optional<std::string> why_foreign(const EngineRecord& record, const EngineMachine& here);
// Why it is no longer what the record says, or nothing: the engine's file was changed, or its model was. A
// model that is no longer there says nothing against the engine.
Result<std::optional<std::string>> why_stale(const EngineRecord& record, const std::filesystem::path& engine);

}  // namespace headroom::tensorrt
