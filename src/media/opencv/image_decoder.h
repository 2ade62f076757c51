// Decodes images with OpenCV's codecs after checking their structure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/media_engine.h"

namespace headroom::media {

// Both functions fail for an image that needs more memory than `bound`.
Result<Decoded> decode_image_file(const std::string& path, const AllocateFrame& allocate_frame,
                                  const std::optional<Bytes>& bound);
Result<std::vector<int>> read_mask_file(const std::string& path, const std::optional<Bytes>& bound);

}  // namespace headroom::media
