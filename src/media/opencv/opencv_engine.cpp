// The media engine's entry point. All use of OpenCV in Headroom is in this folder.
#include <cstdlib>
#include <opencv2/core/utility.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/core/version.hpp>

#include "media/media_engine.h"
#include "media/opencv/annotator.h"
#include "media/opencv/image_decoder.h"
#include "media/opencv/video_reader.h"

namespace headroom::media {
namespace {

class OpenCvEngine : public MediaEngine {
 public:
  OpenCvEngine() { cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT); }
  std::string version() const override { return "OpenCV " + std::string(cv::getVersionString()); }
  Result<Decoded> decode_image_into(const std::string& path, const AllocateFrame& allocate_frame) override {
    return decode_image_file(path, allocate_frame, memory_bound_);
  }
  Result<std::vector<int>> read_mask_ids(const std::string& path) override {
    return read_mask_file(path, memory_bound_);
  }
  Result<std::unique_ptr<VideoReader>> open_video(const std::string& path) override {
    return open_video_file(path);
  }
  Result<std::unique_ptr<VideoReader>> open_camera(int index) override { return open_camera_device(index); }
  Status write_annotated(const Picture& picture, const FrameFindings& findings,
                         const std::vector<std::string>& class_names, const std::string& path) override {
    return write_annotated_jpeg(picture, findings, class_names, path);
  }
};

}  // namespace
}  // namespace headroom::media

extern "C" __attribute__((visibility("default"))) headroom::media::MediaEngine* headroom_media_engine_v1() {
  return new headroom::media::OpenCvEngine;
}
