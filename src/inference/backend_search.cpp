// Finds the plug-in that opens a model: where plug-ins are searched, which backends read which files, and
// what the error says if the right plug-in is missing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/text.h"
#include "inference/backend.h"

namespace headroom::inference {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "libheadroom_backend_";
constexpr std::string_view kSuffix = ".so";

struct KnownBackend {
  std::string_view name;
  std::array<std::string_view, 4> extensions;
  std::string_view how_to_get;
};

// In order of preference: the first installed backend that reads an extension is used.
constexpr std::array<KnownBackend, 3> kKnownBackends{{
    {"tensorrt",
     {".engine", ".plan", ".onnx"},
     "run headroom build-plugin tensorrt (docs/tensorrt.md), or use the model as .onnx with ONNX Runtime"},
    {"onnxruntime",
     {".onnx", ".ort"},
     "install Headroom's package, or set HEADROOM_BACKEND_PATH to the plug-in's folder"},
    {"libtorch",
     {".torchscript", ".pt", ".pth", ".ts"},
     "run headroom build-plugin libtorch (docs/libtorch.md), or export the model to .onnx"},
}};

const KnownBackend* find_known(std::string_view name) {
  const auto* found = std::ranges::find(kKnownBackends, name, &KnownBackend::name);
  return found == kKnownBackends.end() ? nullptr : found;
}

bool reads(const KnownBackend& backend, std::string_view extension) {
  return !extension.empty() && std::ranges::find(backend.extensions, extension) != backend.extensions.end();
}

// The plug-ins in one folder, sorted by name. Empty if the folder is missing or unreadable.
std::vector<BackendFile> backends_in(const fs::path& folder) {
  std::vector<BackendFile> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
    if (file.size() <= kPrefix.size() + kSuffix.size()) continue;
    found.push_back(
        {file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()), entry->path()});
  }
  std::ranges::sort(found, {}, &BackendFile::name);
  return found;
}

const BackendFile* find_file(const std::vector<BackendFile>& files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &BackendFile::name);
  return found == files.end() ? nullptr : &*found;
}

// "libheadroom_backend_tensorrt.so and libheadroom_backend_onnxruntime.so not found in A, B, C".
std::string not_found_text(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back(fmt::format("{}{}{}", kPrefix, name, kSuffix));
  return fmt::format("{} not found in {}", fmt::join(files, " and "), plugin_folders_text());
}

// All installed backends, and the known ones that are not installed.
std::vector<std::string> installed_and_known_names(const std::vector<BackendFile>& files) {
  std::vector<std::string> names;
  for (const BackendFile& file : files) names.push_back(file.name);
  for (const KnownBackend& known : kKnownBackends)
    if (find_file(files, known.name) == nullptr) names.emplace_back(known.name);
  return names;
}

Result<BackendFile> choose_forced(const fs::path& model, std::string_view extension,
                                  const std::string& name) {
  const std::vector<BackendFile> files = find_backend_files();
  const KnownBackend* known = find_known(name);
  const BackendFile* file = find_file(files, name);
  if (known == nullptr && file == nullptr) {
    const std::vector<std::string> names = installed_and_known_names(files);
    const std::string close = closest_match(to_lower(name), names);
    return usage_error(fmt::format("unknown backend '{}'", name), not_found_text({name}),
                       close.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean '{}'?", close));
  }
  // An unknown (third-party) plug-in checks the file itself when it loads the model.
  if (known != nullptr && !extension.empty() && !reads(*known, extension)) {
    const std::vector<std::string> able = backends_for_extension(extension);
    return usage_error(fmt::format("backend '{}' cannot open {}", name, model.string()),
                       fmt::format("it reads {}", fmt::join(known->extensions.begin(),
                                                            std::ranges::find(known->extensions, ""), ", ")),
                       able.empty() ? "" : fmt::format("use --backend {}, or omit --backend", able.front()));
  }
  if (file == nullptr)
    return input_error(fmt::format("backend '{}' is not installed", name), not_found_text({name}),
                       std::string(known->how_to_get));
  return *file;
}

// True if TensorRT cannot run this ONNX model: the device is the CPU, or no engine lies at
// tensorrt::engine_path().
bool lacks_engine(fs::path model, std::string_view extension, std::string_view device) {
  std::error_code code;
  return extension == ".onnx" && (device == "cpu" || !fs::exists(model.replace_extension(".engine"), code));
}

}  // namespace

std::vector<BackendFile> find_backend_files() {
  std::vector<BackendFile> files;
  for (const fs::path& folder : plugin_folders())
    for (BackendFile& file : backends_in(folder))
      if (find_file(files, file.name) == nullptr) files.push_back(std::move(file));
  return files;
}

std::vector<KnownBackendHint> known_backends() {
  std::vector<KnownBackendHint> hints;
  for (const KnownBackend& known : kKnownBackends) hints.push_back({known.name, known.how_to_get});
  return hints;
}

std::vector<std::string> backends_for_extension(std::string_view extension) {
  const std::string lower = to_lower(extension);
  std::vector<std::string> names;
  for (const KnownBackend& known : kKnownBackends)
    if (reads(known, lower)) names.emplace_back(known.name);
  return names;
}

Result<BackendFile> choose_backend(const fs::path& model, std::string_view forced, std::string_view device) {
  auto found = choose_backends(model, forced, device);
  if (!found) return forward_error(found);
  return std::move(found->front());
}

Result<std::vector<BackendFile>> choose_backends(const fs::path& model, std::string_view forced,
                                                 std::string_view device) {
  const std::string extension = to_lower(model.extension().string());
  if (!forced.empty()) {
    auto file = choose_forced(model, extension, std::string(forced));
    if (!file) return forward_error(file);
    return std::vector<BackendFile>{std::move(*file)};
  }
  const std::vector<std::string> names = backends_for_extension(extension);
  if (names.empty()) {
    std::vector<std::string_view> readable;
    for (const KnownBackend& known : kKnownBackends)
      for (const std::string_view known_extension : known.extensions)
        if (!known_extension.empty() && std::ranges::find(readable, known_extension) == readable.end())
          readable.push_back(known_extension);
    return usage_error(
        fmt::format("cannot choose a backend for {}", model.string()),
        extension.empty() ? "its name has no extension"
                          : fmt::format("no known backend reads '{}' files", extension),
        fmt::format("give a model file that ends in {}, or set --backend", fmt::join(readable, ", ")));
  }
  const std::vector<BackendFile> files = find_backend_files();
  std::vector<BackendFile> found;
  for (const std::string& name : names)
    if (const BackendFile* file = find_file(files, name)) found.push_back(*file);
  if (found.size() > 1 && found.front().name == "tensorrt" && lacks_engine(model, extension, device))
    found.erase(found.begin());
  if (!found.empty()) return found;
  // Suggest ONNX Runtime if it reads the file: it is the easiest to install.
  const bool onnxruntime_can = std::ranges::find(names, "onnxruntime") != names.end();
  return input_error(fmt::format("no backend is installed for {}", model.string()), not_found_text(names),
                     std::string(find_known(onnxruntime_can ? "onnxruntime" : names.front())->how_to_get));
}

}  // namespace headroom::inference
