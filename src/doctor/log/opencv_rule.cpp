// OpenCV's allocator: "(-4:Insufficient memory) Failed to allocate N bytes".
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char* kGpu = "GPU";

std::optional<LogMessage> read(std::string_view line) {
  // Its GPU modules, in the words of 3 and 4, and of 2: "gpu_mat.cu:116: error: (-217:Gpu API call) out of
  // memory in function 'allocate'".
  if (has(line, "Gpu API call) out of memory") || has(line, "Gpu API call (out of memory)")) {
    LogMessage message;
    message.subject = kGpu;
    message.add("memory", kGpu);
    return message;
  }
  if (!has(line, "-4:Insufficient memory") && !has(line, "(Insufficient memory)") &&
      !has(line, "OpenCV Error: Insufficient memory") && !has(line, "in function 'OutOfMemoryError'"))
    return std::nullopt;
  LogMessage message;
  add_requested(message, text_after(line, "Failed to allocate "));
  return message;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  Finding finding;
  finding.id = "opencv-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("OpenCV could not allocate {}", words_for_requested(message));
  if (has_wrong_size(message)) {
    finding.cause =
        "No machine has so much memory. A size was not set, or is wrong. More memory would not help.";
    finding.confidence = Confidence::likely;
    finding.cures = {{"check that the image is not empty", "if (image.empty()) …", {}},
                     {"check that OpenCV's headers and library have the same version",
                      "pkg-config --modversion opencv4",
                      {}}};
    return finding;
  }
  if (message.subject == kGpu) {
    finding.title = "OpenCV's GPU module could not allocate GPU memory";
    finding.cause =
        "Each cv::cuda::GpuMat allocates its own memory, and the CUDA context needs some too. Other GPU "
        "programs, and on a Jetson the page cache, left too little.";
    finding.confidence = Confidence::likely;
    finding.cures = {{"reuse matrices instead of allocating new ones",
                      "cv::cuda::setBufferPoolUsage(true); cv::cuda::setBufferPoolConfig(0, 64 << 20, 2);",
                      {}},
                     {"see which processes hold the memory", "headroom top", {}},
                     {"on a Jetson, drop the page cache before the program starts",
                      "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                      {}}};
    return finding;
  }
  finding.cause = "An image or a batch of images was larger than the free memory.";
  finding.confidence = Confidence::likely;
  // Half the width and half the height.
  const auto saved = requested ? std::optional(Bytes{requested->count / 4 * 3}) : std::nullopt;
  finding.cures = {{"decode at half the size", "cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2)", saved},
                   {"keep fewer frames at once", "cap.set(cv2.CAP_PROP_BUFFERSIZE, 2)", {}}};
  return finding;
}

}  // namespace

LogRule opencv_rule() {
  return {"opencv", {"Insufficient memory", "OutOfMemoryError", "Gpu API call"}, read, explain};
}

}  // namespace headroom::doctor
