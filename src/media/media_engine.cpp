#include "media/media_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/files.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

AllocateFrame allocate_in(Picture& picture) {
  return [&picture](PictureSize size) {
    picture.width = size.width;
    picture.height = size.height;
    picture.bgr.resize(size.bytes());
    return picture.bgr.data();
  };
}

constexpr const char* kPluginFile = "libheadroom_media_opencv.so";

Result<std::unique_ptr<MediaEngine>> load_from(const fs::path& file) {
  // Never closed, because OpenCV's threads and static objects do not survive an unload.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return internal_error(
        fmt::format("cannot load {}", file.string()), reason != nullptr ? reason : "unknown",
        "install OpenCV 4's core, imgproc, imgcodecs and videoio libraries (Debian and Ubuntu: apt "
        "install libopencv-dev)");
  }
  const auto create = reinterpret_cast<MediaEngineFunction>(::dlsym(library, kMediaEngineSymbol));
  if (create == nullptr)
    return internal_error(fmt::format("cannot use {}", file.string()),
                          fmt::format("it has no function {}", kMediaEngineSymbol),
                          "rebuild it together with this headroom");
  return std::unique_ptr<MediaEngine>(create());
}

}  // namespace

Result<bool> VideoReader::next(Picture& picture) {
  auto decoded = next_into(allocate_in(picture));
  if (!decoded) return forward_error(decoded);
  return *decoded == Decoded::frame;
}

Status MediaEngine::decode_image(const std::string& path, Picture& picture) {
  auto decoded = decode_image_into(path, allocate_in(picture));
  if (!decoded) return forward_error(decoded);
  return {};
}

Result<std::unique_ptr<MediaEngine>> load_media_engine() {
  std::vector<std::string> tried;
  for (const fs::path& folder : plugin_folders()) {
    const fs::path file = folder / kPluginFile;
    tried.push_back(folder.string());
    std::error_code ignored;
    if (fs::exists(file, ignored)) return load_from(file);
  }
  return internal_error(
      "cannot read images or videos",
      fmt::format("{} was not found in {}", kPluginFile, fmt::join(tried, ", ")),
      "build the target headroom_media_opencv (it needs OpenCV 4; Debian and Ubuntu: apt install "
      "libopencv-dev), or add its folder to HEADROOM_BACKEND_PATH");
}

}  // namespace headroom::media
