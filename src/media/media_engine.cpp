#include "media/media_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

constexpr const char* kPluginFile = "libheadroom_media_pictures.so";

Result<std::unique_ptr<MediaEngine>> load_from(const fs::path& file) {
  // Never closed: the engine's code is used until the process ends.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return internal_error(fmt::format("cannot load {}", file.string()),
                          reason != nullptr ? reason : "unknown",
                          "install libjpeg, libpng, libwebp and libtiff (Debian and Ubuntu: apt install "
                          "libjpeg62-turbo-dev libpng-dev libwebp-dev libtiff-dev)");
  }
  const auto create = reinterpret_cast<MediaEngineFunction>(::dlsym(library, kMediaEngineSymbol));
  if (create == nullptr)
    return internal_error(fmt::format("cannot use {}", file.string()),
                          fmt::format("it has no function {}", kMediaEngineSymbol),
                          "rebuild it together with this headroom");
  return std::unique_ptr<MediaEngine>(create());
}

}  // namespace

Status MediaEngine::decode_image(const std::string& path, Picture& picture) {
  auto decoded = decode_image_into(path, allocate_in(picture));
  if (!decoded) return forward_error(decoded);
  return {};
}

Result<std::unique_ptr<MediaEngine>> load_media_engine() {
  if (const auto file = find_plugin(kPluginFile)) return load_from(*file);
  return internal_error("cannot read images",
                        fmt::format("{} was not found in {}", kPluginFile, plugin_folders_text()),
                        "build the target headroom_media_pictures (Debian and Ubuntu: apt install "
                        "libjpeg62-turbo-dev libpng-dev "
                        "libwebp-dev libtiff-dev libagg-dev), or add its folder to HEADROOM_BACKEND_PATH");
}

}  // namespace headroom::media
