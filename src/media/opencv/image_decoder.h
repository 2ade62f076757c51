// Images, decoded by OpenCV's codecs after their structure was checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/media_engine.h"

namespace headroom::media {

// More memory than `bound`, if there is one, is not taken.
Result<Decoded> decode_image_file(const std::string& path, const TakeRoom& take_room,
                                  const std::optional<Bytes>& bound);
Result<std::vector<int>> read_mask_file(const std::string& path, const std::optional<Bytes>& bound);

}  // namespace headroom::media
