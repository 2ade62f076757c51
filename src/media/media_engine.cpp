#include "media/media_engine.h"

#include <fmt/format.h>

#include "base/files.h"

namespace headroom::media {
namespace {

constexpr const char* kPluginFile = "libheadroom_media_pictures.so";
constexpr const char* kFix =
    "install Headroom's package again; in a build of the sources, build the target headroom_media_pictures "
    "(apt install libjpeg-dev libpng-dev libwebp-dev libtiff-dev libagg-dev)";

}  // namespace

Status MediaEngine::decode_image(const std::string& path, Picture& picture) {
  auto decoded = decode_image_into(path, allocate_in(picture));
  if (!decoded) return forward_error(decoded);
  return {};
}

Result<std::unique_ptr<MediaEngine>> load_media_engine() {
  const auto file = find_plugin(kPluginFile);
  if (!file)
    return internal_error("cannot read images",
                          fmt::format("{} was not found in {}", kPluginFile, plugin_folders_text()), kFix);
  auto create = load_plugin(*file, kMediaEngineSymbol, kFix);
  if (!create) return forward_error(create);
  return std::unique_ptr<MediaEngine>(reinterpret_cast<MediaEngineFunction>(*create)());
}

}  // namespace headroom::media
