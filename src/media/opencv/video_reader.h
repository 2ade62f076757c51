// Reads videos and cameras with OpenCV's videoio.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "media/media_engine.h"

namespace headroom::media {

Result<std::unique_ptr<VideoReader>> open_video_file(const std::string& path);
Result<std::unique_ptr<VideoReader>> open_camera_device(int index);

}  // namespace headroom::media
