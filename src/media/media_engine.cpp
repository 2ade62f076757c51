#include "media/media_engine.h"

namespace headroom::media {
namespace {

AllocateFrame allocate_in(Picture& picture) {
  return [&picture](PictureSize size) {
    picture.width = size.width;
    picture.height = size.height;
    picture.bgr.resize(size.bytes());
    return picture.bgr.data();
  };
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

}  // namespace headroom::media
