// Images, decoded by OpenCV's codecs after their structure was checked.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "media/media_engine.h"

namespace headroom::media {

Result<Decoded> decode_image_file(const std::string& path, const TakeRoom& take_room);
Result<std::vector<int>> read_mask_file(const std::string& path);

}  // namespace headroom::media
