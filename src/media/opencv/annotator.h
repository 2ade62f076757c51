// Draws a model's findings onto a frame.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "media/media_engine.h"

namespace headroom::media {

Status write_annotated_jpeg(const Picture& picture, const FrameFindings& findings,
                            const std::vector<std::string>& class_names, const std::string& path);

}  // namespace headroom::media
