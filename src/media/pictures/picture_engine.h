// The media engine: reads and writes pictures with libjpeg-turbo, libpng, libwebp and libtiff, and draws with
// AGG.
#pragma once

#include "media/media_engine.h"

namespace headroom::media {

class PictureEngine final : public MediaEngine {
 public:
  std::string version() const override;
  // picture_reader.cpp
  Result<Decoded> decode_image_into(const std::string& path, const AllocateFrame& allocate_frame) override;
  Result<std::vector<int>> read_mask_ids(const std::string& path) override;
  Result<LabelPicture> read_labels(const std::string& path) override;
  Status write_labels(const LabelPicture& labels, const std::string& path) override;
  // annotator.cpp
  Status write_annotated(const Picture& picture, const FrameFindings& findings,
                         const std::vector<std::string>& class_names, const std::string& path) override;
};

}  // namespace headroom::media
