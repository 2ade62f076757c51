#include "media/video_reader.h"

namespace headroom::media {

AllocateFrame allocate_in(Picture& picture) {
  return [&picture](PictureSize size) {
    picture.width = size.width;
    picture.height = size.height;
    picture.bgr.resize(size.bytes());
    return picture.bgr.data();
  };
}

Result<bool> VideoReader::next(Picture& picture) {
  auto decoded = next_into(allocate_in(picture));
  if (!decoded) return forward_error(decoded);
  return *decoded == Decoded::frame;
}

}  // namespace headroom::media
