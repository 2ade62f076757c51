#include "inference/onnxruntime/mapped_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/files.h"
#include "inference/onnxruntime/failure.h"
#include "inference/onnxruntime/session_options.h"
#include "types/external_data.h"

namespace headroom::onnxruntime {
namespace {
namespace fs = std::filesystem;

// Returns the processor's feature flags. An optimized graph depends on them, because its layouts are
// chosen for the processor.
std::string processor_features() {
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  return {};
}

fs::path prepared_file(const Runtime& runtime, const fs::path& model, const hr_settings& settings) {
  std::error_code error;
  const auto size = fs::file_size(model, error);
  const auto changed = fs::last_write_time(model, error).time_since_epoch().count();
  if (error)
    throw Failure{HR_ERROR_FAILED, fmt::format("cannot read {}: {}", model.string(), error.message())};
  const std::string key = fmt::format("{}|{}|{}|{}|{}|{}", fs::absolute(model, error).string(), size, changed,
                                      runtime.version(), settings.graph_level, processor_features());
  return fs::path(engine_cache()) /
         fmt::format("{}-{:016x}.ort", model.stem().string(), std::hash<std::string>{}(key));
}

// The state of the model's external weight files, one line per file: size, modification time, name. The
// prepared file contains their weights, and they can change while the model's own file stays the same.
std::string state_of(const std::set<std::string>& names, const fs::path& folder) {
  std::string state;
  for (const std::string& name : names) {
    std::error_code error;
    const auto size = fs::file_size(folder / name, error);
    const auto changed = fs::last_write_time(folder / name, error).time_since_epoch().count();
    state += error ? fmt::format("absent - {}\n", name) : fmt::format("{} {} {}\n", size, changed, name);
  }
  return state;
}
std::set<std::string> external_files(const fs::path& model) {
  ExternalDataFinder finder;
  plugin::value_or_throw(file_fingerprint(model, [&](std::string_view piece) { finder.take(piece); }));
  return finder.names();
}
fs::path state_path(const fs::path& prepared) { return prepared.string() + ".weights"; }
bool matches_weights(const fs::path& prepared, const fs::path& folder) {
  std::ifstream file(state_path(prepared));
  std::string state;
  std::set<std::string> names;
  for (std::string line; std::getline(file, line); state += line + "\n")
    names.insert(line.substr(std::min(line.size(), line.find(' ', line.find(' ') + 1) + 1)));
  return file.eof() && state == state_of(names, folder);
}

void make(Runtime& runtime, const std::string& model, const hr_settings& settings, const fs::path& file) {
  const fs::path unfinished = fmt::format("{}.{}", file.string(), ::getpid());
  const std::string weights = state_of(external_files(model), fs::path(model).parent_path());
  const OrtApi& api = runtime.api();
  const auto options = make_session_options(runtime, settings, nullptr);
  runtime.check(api.SetOptimizedModelFilePath(options.get(), unfinished.c_str()));
  runtime.check(api.AddSessionConfigEntry(options.get(), "session.save_model_format", "ORT"));
  std::error_code error;
  try {
    OrtSession* made = nullptr;
    runtime.check(api.CreateSession(runtime.env(), model.c_str(), options.get(), &made));
    api.ReleaseSession(made);
  } catch (...) {
    fs::remove(unfinished, error);
    throw;
  }
  // Write the state first, so that a prepared file never exists without it.
  if (auto written = write_file_atomically(state_path(file), weights); !written)
    throw Failure{HR_ERROR_FAILED, written.error().sentence()};
  fs::rename(unfinished, file, error);
  if (error)
    throw Failure{HR_ERROR_FAILED, fmt::format("cannot write {}: {}", file.string(), error.message())};
}

}  // namespace

std::string mapped_model(Runtime& runtime, const std::string& path, const hr_settings& settings) {
  if (fs::path(path).extension() == ".ort") return path;
  const fs::path file = prepared_file(runtime, path, settings);
  std::error_code error;
  if (!fs::exists(file, error) || !matches_weights(file, fs::path(path).parent_path()))
    make(runtime, path, settings, file);
  return file.string();
}

void add_mapping(const Runtime& runtime, OrtSessionOptions& options) {
  const OrtApi& api = runtime.api();
  runtime.check(api.AddSessionConfigEntry(&options, "session.use_memory_mapped_ort_model", "1"));
  runtime.check(api.AddSessionConfigEntry(&options, "session.use_ort_model_bytes_for_initializers", "1"));
}

void require_mapped(const Runtime& runtime, const std::string& file) {
  std::error_code error;
  const std::string whole = fs::canonical(file, error).string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (!error && line.ends_with(whole)) return;
  throw Failure{HR_ERROR_UNAVAILABLE,
                fmt::format("ONNX Runtime {} cannot map models; use version 1.29 or newer, or omit mapped=on",
                            runtime.version())};
}

}  // namespace headroom::onnxruntime
