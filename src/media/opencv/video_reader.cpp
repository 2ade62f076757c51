#include "media/opencv/opencv_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "base/units.h"
#include "media/image_header.h"

namespace headroom::media {
namespace fs = std::filesystem;
namespace {

// Decoding (grab) and conversion to BGR (retrieve) are separate, so a frame that does not fit stays
// grabbed.
class OpenCvVideoReader : public VideoReader {
 public:
  OpenCvVideoReader(const cv::VideoCapture& capture, bool is_camera)
      : capture_(capture), is_camera_(is_camera) {
    const auto property = [&](int id) {
      const double value = capture_.get(id);
      return std::isfinite(value) && value > 0 && value < 2e9 ? value : 0.0;
    };
    size_ = {static_cast<int>(property(cv::CAP_PROP_FRAME_WIDTH)),
             static_cast<int>(property(cv::CAP_PROP_FRAME_HEIGHT))};
    frame_count_ = static_cast<std::int64_t>(property(cv::CAP_PROP_FRAME_COUNT));
  }

  Result<Decoded> next_into(const AllocateFrame& allocate_frame) override {
    QuietStderr quiet;
    sensor_wait_ = {};
    try {
      const Nanoseconds asked = monotonic_now();
      if (!grabbed_ && !capture_.grab()) return Decoded::end;
      if (is_camera_) sensor_wait_ = monotonic_now() - asked;
      grabbed_ = true;
      return deliver(allocate_frame);
    } catch (const cv::Exception& problem) {
      grabbed_ = false;
      return input_error("cannot decode the frame", problem.err);
    }
  }
  void skip_frame() override { grabbed_ = false; }
  PictureSize size() const override { return size_; }
  std::int64_t frame_count() const override { return frame_count_; }
  Nanoseconds sensor_wait() const override { return sensor_wait_; }

 private:
  Result<Decoded> deliver(const AllocateFrame& allocate_frame) {
    std::uint8_t* memory = allocate_frame(size_);
    if (memory == nullptr) return Decoded::no_space;
    cv::Mat image(size_.height, size_.width, CV_8UC3, memory);
    const bool retrieved = capture_.retrieve(image);
    if (retrieved && image.data == memory) {
      grabbed_ = false;
      return Decoded::frame;
    }
    if (!retrieved || image.empty() || image.depth() != CV_8U) {
      grabbed_ = false;
      return input_error("cannot decode the frame");
    }
    // The frame has another shape than the container announces: turned by its metadata, or changed within
    // the video.
    if (image.channels() == 1) cv::cvtColor(image, image, cv::COLOR_GRAY2BGR);
    size_ = {image.cols, image.rows};
    memory = allocate_frame(size_);
    if (memory == nullptr) return Decoded::no_space;
    cv::Mat target(image.rows, image.cols, CV_8UC3, memory);
    image.copyTo(target);
    grabbed_ = false;
    return Decoded::frame;
  }

  cv::VideoCapture capture_;
  PictureSize size_;
  std::int64_t frame_count_ = 0;
  Nanoseconds sensor_wait_;
  bool is_camera_ = false;
  bool grabbed_ = false;
};

Result<std::unique_ptr<VideoReader>> reader_of(const cv::VideoCapture& capture, const std::string& what,
                                               bool is_camera) {
  auto reader = std::make_unique<OpenCvVideoReader>(capture, is_camera);
  const PictureSize size = reader->size();
  if (size.width == 0 || size.height == 0) return input_error(what, "it has no frame size");
  if (static_cast<std::int64_t>(size.width) * size.height > kMaximumPixels)
    return input_error(what, fmt::format("its frames of {} x {} pixels exceed the limit of {} pixels",
                                         size.width, size.height, kMaximumPixels));
  return reader;
}

// The first line of the library's messages, without a prefix such as "[mov,mp4,m4a @ 0x55d0c9b2]".
std::string reason_in_messages(const std::string& messages) {
  std::string line = messages.substr(0, messages.find('\n'));
  if (const auto end = line.find("] "); line.starts_with('[') && end != std::string::npos)
    line.erase(0, end + 2);
  return line;
}

}  // namespace

Result<std::unique_ptr<VideoReader>> OpenCvEngine::open_video(const std::string& path) {
  const std::string what = fmt::format("cannot open the video {}", path);
  std::error_code code;
  if (!fs::exists(path, code)) return input_error(what, "no such file", "check the path");
  if (::access(path.c_str(), R_OK) != 0)
    return input_error(what, "permission denied", "check the file's permissions");
  if (fs::file_size(path, code) == 0 && !code) return input_error(what, "the file is empty");
  // Absolute, because FFmpeg treats the part before a colon as a protocol.
  const std::string absolute = fs::absolute(path, code).string();
  QuietStderr quiet;
  cv::VideoCapture capture;
  try {
    // Not CAP_ANY, which also tries image sequences, where a '%' in the name is a pattern.
    for (const int backend : {cv::CAP_FFMPEG, cv::CAP_GSTREAMER, cv::CAP_OPENCV_MJPEG})
      if (capture.open(absolute, backend)) break;
  } catch (const cv::Exception&) {  // handled below like a file that no backend opens
  }
  if (!capture.isOpened()) {
    const std::string reason = reason_in_messages(quiet.text());
    return input_error(
        what,
        reason.empty() ? "it is damaged, incomplete, or in a format that this OpenCV build lacks" : reason,
        "check that a video player opens it, or convert it to mp4");
  }
  return reader_of(capture, what, false);
}

Result<std::unique_ptr<VideoReader>> OpenCvEngine::open_camera(int index) {
  const std::string device = fmt::format("/dev/video{}", index);
  const std::string what = fmt::format("cannot open camera {}", index);
  std::error_code code;
  if (!fs::exists(device, code))
    return input_error(what, "no device " + device,
                       "connect the camera, or use another number (ls /dev/video*)");
  if (::access(device.c_str(), R_OK | W_OK) != 0)
    return input_error(what, "no permission for " + device, "add yourself to the group video");
  QuietStderr quiet;
  cv::VideoCapture capture;
  try {
    if (!capture.open(index, cv::CAP_V4L2)) capture.open(index, cv::CAP_ANY);
  } catch (const cv::Exception&) {  // handled below like a device that does not open
  }
  if (!capture.isOpened())
    return input_error(what, device + " delivers no frames", "check that no other program uses it");
  return reader_of(capture, what, true);
}

}  // namespace headroom::media

// Limits FFmpeg's decoders to one thread. By default FFmpeg uses frame threads, which decode the following
// frames in the background. Then the decoder's process would work while the worker measures, and the time
// of those frames would be in no `decode` figure.
//
// OpenCV before 4.7 has no option for this (it calls avcodec_open2() with as many threads as cores and no
// options). But this plug-in is loaded with its own symbol scope, in which it comes before its libraries.
// So libopencv_videoio calls this function instead of libavcodec's; no other code does. If OpenCV contains
// its own copy of FFmpeg, this function is not called, and nothing changes.
//
// NOLINTNEXTLINE(readability-identifier-naming): FFmpeg's name; its structs stay opaque here
extern "C" __attribute__((visibility("default"))) int avcodec_open2(void* context, const void* codec,
                                                                    void** options) {
  using Open = int (*)(void*, const void*, void**);
  using SetInteger = int (*)(void*, const char*, std::int64_t, int);
  static const auto open = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "avcodec_open2"));
  static const auto set = reinterpret_cast<SetInteger>(::dlsym(RTLD_NEXT, "av_opt_set_int"));
  if (open == nullptr) return -ENOSYS;  // FFmpeg's errors are negative errno values
  if (set != nullptr) set(context, "threads", 1, 0);
  return open(context, codec, options);
}
