#include "media/opencv/opencv_engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <opencv2/core/utility.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/core/version.hpp>

namespace headroom::media {
namespace {

int sink() {
  static const int fd = ::memfd_create("headroom-library-messages", MFD_CLOEXEC);
  return fd;
}

}  // namespace

OpenCvEngine::OpenCvEngine() { cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT); }
std::string OpenCvEngine::version() const { return "OpenCV " + std::string(cv::getVersionString()); }

QuietStderr::QuietStderr() : sink_(sink()) {
  if (sink_ < 0) return;
  saved_.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!saved_) return;
  if (::ftruncate(sink_, 0) != 0 || ::lseek(sink_, 0, SEEK_SET) != 0) return;
  ::dup2(sink_, STDERR_FILENO);
}

QuietStderr::~QuietStderr() {
  if (saved_) ::dup2(saved_.get(), STDERR_FILENO);
}

std::string QuietStderr::text() const {
  std::array<char, 4096> buffer;
  const ssize_t got = saved_ ? ::pread(sink_, buffer.data(), buffer.size(), 0) : 0;
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

}  // namespace headroom::media

extern "C" __attribute__((visibility("default"))) headroom::media::MediaEngine* headroom_media_engine_v1() {
  return new headroom::media::OpenCvEngine;
}
