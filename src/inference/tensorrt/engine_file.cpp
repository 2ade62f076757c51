#include "inference/tensorrt/engine_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/files.h"
#include "base/json.h"

namespace headroom::tensorrt {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kLengthBytes = 4;
// A thousand class names are 20 KB.
constexpr std::uint32_t kLongestMetadata = 4 << 20;

constexpr int kSchemaVersion = 1;

Result<FileState> cheap_state_of(const fs::path& file) {
  std::error_code code;
  FileState state;
  const auto bytes = fs::file_size(file, code);
  if (code)
    return input_error(fmt::format("cannot open {}", file.string()), code.message(), "check the path");
  state.bytes = Bytes{static_cast<std::int64_t>(bytes)};
  const auto time = fs::last_write_time(file, code);
  if (!code)
    state.modified_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return state;
}

// True if the file is unchanged. Compares size and modification time; if only the time differs, compares
// the content.
Result<bool> is_unchanged(const fs::path& file, const FileState& state) {
  const auto now = cheap_state_of(file);
  if (!now) return tl::unexpected<Error>(now.error());
  if (now->bytes != state.bytes) return false;
  if (now->modified_ns == state.modified_ns) return true;
  const auto fingerprint = file_fingerprint(file);
  if (!fingerprint) return tl::unexpected<Error>(fingerprint.error());
  return *fingerprint == state.fingerprint;
}

Json state_to_json(const FileState& state) {
  return {
      {"fingerprint", state.fingerprint}, {"bytes", state.bytes.count}, {"modified_ns", state.modified_ns}};
}

FileState state_from_json(const Json& object) {
  return {get_text(object, "fingerprint"), get_bytes(object, "bytes").value_or(Bytes{}),
          get_integer(object, "modified_ns").value_or(0)};
}

Result<EngineRecord> record_from_json(const Json& document) {
  const auto version = get_integer(document, "schema_version");
  if (version != kSchemaVersion)
    return input_error(
        "unsupported engine record",
        version ? fmt::format("its schema_version is {}", *version) : "it has no schema_version",
        "build the engine again with headroom build-engine");
  EngineRecord record;
  record.headroom_version = get_text(document, "headroom_version");
  record.created_at = get_text(document, "created_at");
  const Json& machine = get_member(document, "machine");
  record.machine = {get_text(machine, "gpu"),          get_text(machine, "compute_capability"),
                    get_text(machine, "uuid"),         get_text(machine, "driver_version"),
                    get_text(machine, "cuda_version"), get_text(machine, "tensorrt_version")};
  const Json& settings = get_member(document, "settings");
  record.settings.precision = get_text(settings, "precision");
  record.settings.image_size = static_cast<int>(get_integer(settings, "image_size").value_or(0));
  record.settings.workspace = get_bytes(settings, "workspace_bytes").value_or(Bytes{});
  for (const Json& input : get_member(document, "inputs"))
    if (input.is_string()) record.inputs.push_back(input.get<std::string>());
  record.model = state_from_json(get_member(document, "model"));
  record.model_path = get_text(get_member(document, "model"), "path");
  record.engine = state_from_json(get_member(document, "engine"));
  if (record.machine.tensorrt_version.empty() || record.engine.fingerprint.empty())
    return input_error("incomplete engine record", "it lacks a version or a fingerprint",
                       "build the engine again with headroom build-engine");
  return record;
}

// "it was built for X, but this machine has Y", or nothing.
std::optional<std::string> difference(std::string_view what, const std::string& built,
                                      const std::string& here) {
  if (built == here || built.empty() || here.empty()) return std::nullopt;
  return fmt::format("it was built {} {}, but this machine has {}", what, built, here);
}

}  // namespace

EngineParts parts_of(std::string_view file) {
  EngineParts whole{file, {}};
  std::uint32_t length = 0;
  if (file.size() <= kLengthBytes) return whole;
  std::memcpy(&length, file.data(), kLengthBytes);  // little-endian, like all machines that TensorRT supports
  const std::string_view rest = file.substr(kLengthBytes);
  if (length < 2 || length > kLongestMetadata || length >= rest.size()) return whole;
  const std::string_view text = rest.substr(0, length);
  if (text.front() != '{' || text.back() != '}') return whole;
  const auto document = parse_json(text, "the engine's metadata");
  if (!document || !document->is_object()) return whole;
  EngineParts parts{rest.substr(length), {}};
  for (const auto& [key, value] : document->items())
    parts.metadata.emplace_back(key, value.is_string() ? value.get<std::string>() : to_line(value));
  return parts;
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno), "check the path");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return input_error(fmt::format("{} is empty", path.string()), "", "build the engine again");
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return failure(fmt::format("cannot map {}", path.string()), errno_text(errno));
  return MappedFile({static_cast<char*>(memory), {size}});
}

void MappedFile::Unmap::operator()(char* memory) const { ::munmap(memory, bytes); }

fs::path record_path(const fs::path& engine) { return engine.string() + ".json"; }
fs::path engine_path(const fs::path& model) { return fs::path(model).replace_extension(".engine"); }

Result<FileState> state_of(const fs::path& file) {
  auto state = cheap_state_of(file);
  if (!state) return state;
  auto fingerprint = file_fingerprint(file);
  if (!fingerprint) return forward_error(fingerprint);
  state->fingerprint = std::move(*fingerprint);
  return state;
}

Json to_json(const EngineRecord& record) {
  Json document;
  document["schema_version"] = kSchemaVersion;
  document["headroom_version"] = record.headroom_version;
  document["created_at"] = record.created_at;
  Json& machine = document["machine"];
  machine["gpu"] = record.machine.gpu;
  machine["compute_capability"] = record.machine.compute_capability;
  set_if(machine, "uuid", record.machine.uuid);
  set_if(machine, "driver_version", record.machine.driver_version);
  set_if(machine, "cuda_version", record.machine.cuda_version);
  machine["tensorrt_version"] = record.machine.tensorrt_version;
  Json& settings = document["settings"];
  settings["precision"] = record.settings.precision;
  settings["image_size"] = record.settings.image_size;
  if (record.settings.workspace > Bytes{}) settings["workspace_bytes"] = record.settings.workspace.count;
  document["inputs"] = record.inputs;
  document["model"] = state_to_json(record.model);
  document["model"]["path"] = record.model_path;
  document["engine"] = state_to_json(record.engine);
  return document;
}

Status write_record(const fs::path& engine, const EngineRecord& record) {
  return write_file_atomically(record_path(engine), to_text(to_json(record)));
}

Result<std::optional<EngineRecord>> read_record(const fs::path& engine) {
  const fs::path path = record_path(engine);
  std::error_code code;
  if (!fs::exists(path, code)) return std::optional<EngineRecord>();
  const auto text = read_file(path, mebibytes(1));
  if (!text) return tl::unexpected<Error>(text.error());
  const auto document = parse_json(*text, path.string());
  if (!document) return tl::unexpected<Error>(document.error());
  auto record = record_from_json(*document);
  if (!record) {
    record.error().what = fmt::format("cannot use {}: {}", path.string(), record.error().what);
    return forward_error(record);
  }
  return std::optional(std::move(*record));
}

std::optional<std::string> why_incompatible(const EngineRecord& record, const EngineMachine& here) {
  if (auto why = difference("by TensorRT", record.machine.tensorrt_version, here.tensorrt_version))
    return why;
  if (auto why = difference("for", record.machine.gpu, here.gpu)) return why;
  return difference("for compute capability", record.machine.compute_capability, here.compute_capability);
}

Result<std::optional<std::string>> why_stale(const EngineRecord& record, const fs::path& engine) {
  const auto same_engine = is_unchanged(engine, record.engine);
  if (!same_engine) return tl::unexpected<Error>(same_engine.error());
  if (!*same_engine)
    return std::optional(
        fmt::format("it does not match its record, {}", record_path(engine).filename().string()));
  std::error_code code;
  if (record.model_path.empty() || !fs::exists(record.model_path, code)) return std::optional<std::string>();
  const auto same_model = is_unchanged(record.model_path, record.model);
  if (!same_model) return tl::unexpected<Error>(same_model.error());
  if (!*same_model)
    return std::optional(fmt::format("{} has changed since the engine was built", record.model_path));
  return std::optional<std::string>();
}

}  // namespace headroom::tensorrt
