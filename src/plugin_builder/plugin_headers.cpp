#include "plugin_builder/plugin_headers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "plugin_builder/compiler.h"

namespace headroom::plugin_builder {
namespace {
namespace fs = std::filesystem;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

// "/usr/include/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu".
fs::path of_this_machine(const char* folder) {
  utsname machine{};
  ::uname(&machine);
  return fs::path(folder) / fmt::format("{}-linux-gnu", machine.machine);
}

// The first folder that contains the file; empty if none does.
fs::path folder_of(std::string_view file, const IncludeDirs& dirs, const IncludeDirs& others) {
  for (const IncludeDirs* list : {&dirs, &others})
    for (const fs::path& folder : *list)
      if (is_there(folder / file)) return folder;
  return {};
}

// The number of "#define NAME number" in a header; -1 if it has none.
int defined_number(std::string_view header, std::string_view name) {
  for (const std::string_view line : split(header, '\n')) {
    const auto words = split_words(line);
    if (words.size() >= 3 && words[0] == "#define" && words[1] == name)
      if (const auto number = parse_number<int>(words[2])) return *number;
  }
  return -1;
}

void add_include(PluginHeaders& headers, const fs::path& folder) {
  // The compiler searches /usr/include last by itself. As a system folder it would hide the C++ library's.
  if (folder != "/usr/include") headers.flags.insert(headers.flags.end(), {"-isystem", folder.string()});
}

// Reported together, so that the user installs once.
class Missing {
 public:
  void add(std::string what, std::string package) { all_.push_back({std::move(what), std::move(package)}); }
  bool any() const { return !all_.empty(); }
  tl::unexpected<Error> error(std::string_view plugin) const {
    std::vector<std::string> things, packages;
    for (const auto& [what, package] : all_) {
      things.push_back(what);
      packages.push_back(package);
    }
    return input_error(
        fmt::format("cannot build the plug-in {}", plugin),
        fmt::format("not found: {}", fmt::join(things, ", ")),
        fmt::format("install {}, or give the folder with --include-dir", fmt::join(packages, " and ")));
  }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

constexpr const char* kCudaPackage = "CUDA's headers (cuda-cudart-dev-VERSION, such as cuda-cudart-dev-12-6)";

fs::path cuda_headers(const IncludeDirs& dirs, IncludeDirs others = {}) {
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const fs::path home = variable(name); !home.empty()) others.push_back(home / "include");
  others.insert(others.end(), {"/usr/local/cuda/include", "/usr/include"});
  return folder_of("cuda_runtime_api.h", dirs, others);
}

// The major and minor version of TensorRT's headers. Since 10.15 NV_TENSORRT_MAJOR is another macro.
std::pair<int, int> tensorrt_version(const fs::path& folder) {
  const auto text = read_file(folder / "NvInferVersion.h", mebibytes(1));
  if (!text) return {-1, -1};
  const auto either = [&](const char* newer, const char* older) {
    const int number = defined_number(*text, newer);
    return number >= 0 ? number : defined_number(*text, older);
  };
  return {either("TRT_MAJOR_ENTERPRISE", "NV_TENSORRT_MAJOR"),
          either("TRT_MINOR_ENTERPRISE", "NV_TENSORRT_MINOR")};
}

// A LibTorch: the folder of its headers and the folder of its libraries.
struct LibTorch {
  fs::path include, libraries;
};

constexpr const char* kTorchHeader = "torch/csrc/jit/api/module.h";

LibTorch libtorch_in(const IncludeDirs& dirs) {
  IncludeDirs folders = dirs;
  // Finds the package without importing it, which would take seconds.
  const std::string package =
      output_of({"python3", "-c",
                 "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"});
  if (!package.empty()) folders.push_back(fs::path(package) / "include");
  folders.emplace_back("/usr/include");
  const fs::path include = folder_of(kTorchHeader, folders, {});
  if (include.empty()) return {};
  const fs::path library = "libtorch_cpu.so";
  return {include, folder_of(library.string(), {include.parent_path() / "lib"},
                             {of_this_machine("/usr/lib"), "/usr/lib"})};
}

// {2, 9}; {-1, -1} if the headers do not tell it.
std::pair<int, int> libtorch_version(const fs::path& include) {
  for (const char* file :
       {"torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h", "torch/version.h"}) {
    const auto text = read_file(include / file, mebibytes(1));
    if (!text) continue;
    if (const int major = defined_number(*text, "TORCH_VERSION_MAJOR"); major >= 0)
      return {major, defined_number(*text, "TORCH_VERSION_MINOR")};
  }
  return {-1, -1};
}

// True if the libraries were built with the strings of g++ 4, as PyPI's were before version 2.6.
bool has_old_strings(const fs::path& libraries) {
  return file_contains(libraries / "libc10.so", "c105ErrorC1ENS_14SourceLocationESs");
}

// Links CUDA's part and returns true, or notes why the plug-in runs on the CPU only.
bool add_cuda(PluginHeaders& headers, const LibTorch& torch, const IncludeDirs& dirs) {
  if (!is_there(torch.libraries / "libtorch_cuda.so") || !is_there(torch.libraries / "libc10_cuda.so")) {
    headers.notes.emplace_back("this LibTorch has no CUDA, so the plug-in runs on the CPU only");
    return false;
  }
  const fs::path packages = torch.include.parent_path().parent_path();  // Python's
  const fs::path cuda =
      cuda_headers(dirs, {packages / "nvidia/cuda_runtime/include", packages / "nvidia/cu13/include"});
  if (cuda.empty()) {
    headers.notes.push_back(fmt::format(
        "cuda_runtime_api.h was not found, so the plug-in runs on the CPU only; install {}", kCudaPackage));
    return false;
  }
  add_include(headers, cuda);
  headers.flags.emplace_back("-DHEADROOM_LIBTORCH_HAS_CUDA");
  // No symbol of torch_cuda is used, but loading it registers the kernels.
  headers.libraries.insert(headers.libraries.end(), {"-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda"});
  return true;
}

// ROS 2's folders, first the ones of the environment.
IncludeDirs ros_prefixes() {
  IncludeDirs prefixes;
  for (const std::string_view prefix : split(variable("AMENT_PREFIX_PATH"), ':'))
    if (!prefix.empty()) prefixes.emplace_back(prefix);
  if (!variable("ROS_DISTRO").empty()) prefixes.push_back(fs::path("/opt/ros") / variable("ROS_DISTRO"));
  std::error_code code;
  for (fs::directory_iterator entry("/opt/ros", code), end; !code && entry != end; entry.increment(code))
    prefixes.push_back(entry->path());
  return prefixes;
}

// Since Humble each package has a folder of its own: include/rclcpp/rclcpp/rclcpp.hpp.
void add_ros_includes(PluginHeaders& headers, const fs::path& include) {
  add_include(headers, include);
  std::vector<fs::path> folders;
  std::error_code code;
  for (fs::directory_iterator entry(include, code), end; !code && entry != end; entry.increment(code))
    if (is_there(entry->path() / entry->path().filename())) folders.push_back(entry->path());
  std::ranges::sort(folders);
  for (const fs::path& folder : folders) add_include(headers, folder);
}

}  // namespace

Result<PluginHeaders> find_tensorrt(const IncludeDirs& dirs) {
  IncludeDirs others;
  if (const fs::path chosen = variable("TENSORRT_INCLUDE_DIR"); !chosen.empty()) others.push_back(chosen);
  others.insert(others.end(), {of_this_machine("/usr/include"), "/usr/include", "/usr/local/tensorrt/include",
                               "/opt/tensorrt/include"});
  const fs::path tensorrt = folder_of("NvInfer.h", dirs, others), cuda = cuda_headers(dirs);
  Missing missing;
  if (tensorrt.empty())
    missing.add("TensorRT's NvInfer.h", "libnvinfer-headers-dev (TensorRT 8.5: libnvinfer-dev)");
  if (cuda.empty()) missing.add("CUDA's cuda_runtime_api.h", kCudaPackage);
  if (missing.any()) return missing.error("tensorrt");
  const auto [major, minor] = tensorrt_version(tensorrt);
  PluginHeaders headers;
  headers.built_for = fmt::format("TensorRT {}.{}", major, minor);
  if (major < 8 || (major == 8 && minor < 5))
    return input_error(fmt::format("{} has no TensorRT that the plug-in can use", tensorrt.string()),
                       major < 0 ? "its version is unreadable" : headers.built_for,
                       "use the headers of TensorRT 8.5 or newer");
  if (!is_there(tensorrt / "NvOnnxParser.h"))
    headers.notes.emplace_back(
        "NvOnnxParser.h was not found, so headroom build-engine cannot read ONNX; install "
        "libnvonnxparsers-dev and build again");
  add_include(headers, tensorrt);
  add_include(headers, cuda);
  return headers;
}

Result<PluginHeaders> find_libtorch(const IncludeDirs& dirs) {
  const LibTorch torch = libtorch_in(dirs);
  Missing missing;
  if (torch.include.empty())
    missing.add(fmt::format("LibTorch's {}", kTorchHeader),
                "libtorch-dev, or PyTorch for the python3 that is first in PATH");
  else if (torch.libraries.empty())
    missing.add(fmt::format("libtorch_cpu.so for {}", torch.include.string()), "libtorch-dev");
  if (missing.any()) return missing.error("libtorch");
  PluginHeaders headers;
  const auto version = libtorch_version(torch.include);
  headers.built_for =
      fmt::format("LibTorch {}.{} in {}", version.first, version.second, torch.libraries.string());
  add_include(headers, torch.include);
  headers.flags.push_back(
      fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", has_old_strings(torch.libraries) ? 0 : 1));
  headers.libraries = {"-L" + torch.libraries.string(), "-Wl,-rpath," + torch.libraries.string(),
                       "-ltorch_cpu", "-lc10"};
  headers.traces_cuda = add_cuda(headers, torch, dirs) && version >= std::pair(2, 2);
  return headers;
}

Result<PluginHeaders> find_rclcpp(const IncludeDirs& dirs) {
  IncludeDirs includes = dirs;
  for (const fs::path& prefix : ros_prefixes()) includes.push_back(prefix / "include");
  const auto package_in = [&](const char* name, const char* header) {
    for (const fs::path& include : includes)
      if (is_there(include / name / name / header) || is_there(include / name / header)) return include;
    return fs::path();
  };
  const fs::path rclcpp = package_in("rclcpp", "rclcpp.hpp"),
                 messages = package_in("diagnostic_msgs", "msg/diagnostic_array.hpp");
  const std::string_view given = variable("ROS_DISTRO");
  const std::string distribution = given.empty() ? "DISTRIBUTION" : std::string(given);
  Missing missing;
  if (rclcpp.empty()) missing.add("rclcpp/rclcpp.hpp", fmt::format("ros-{}-rclcpp", distribution));
  if (messages.empty())
    missing.add("diagnostic_msgs/msg/diagnostic_array.hpp",
                fmt::format("ros-{}-diagnostic-msgs", distribution));
  if (missing.any()) return missing.error("rclcpp");
  PluginHeaders headers;
  headers.built_for = fmt::format("ROS 2 in {}", rclcpp.parent_path().string());
  add_ros_includes(headers, rclcpp);
  if (messages != rclcpp) add_ros_includes(headers, messages);
  for (const fs::path& include : {rclcpp, messages}) {
    const std::string library = (include.parent_path() / "lib").string();
    headers.libraries.insert(headers.libraries.end(), {"-L" + library, "-Wl,-rpath," + library});
  }
  // These two load the libraries of the other symbols.
  headers.libraries.insert(headers.libraries.end(),
                           {"-Wl,--no-as-needed", "-lrclcpp", "-ldiagnostic_msgs__rosidl_typesupport_cpp"});
  return headers;
}

}  // namespace headroom::plugin_builder
