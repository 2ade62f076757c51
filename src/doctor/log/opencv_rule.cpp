// OpenCV's allocator: "(-4:Insufficient memory) Failed to allocate N bytes".
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "-4:Insufficient memory") && !has(line, "(Insufficient memory)") &&
      !has(line, "OpenCV Error: Insufficient memory") && !has(line, "in function 'OutOfMemoryError'"))
    return std::nullopt;
  LogMessage message;
  message.add("requested_bytes", size_after(line, "Failed to allocate "));
  return message;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  Finding finding;
  finding.id = "opencv-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("OpenCV could not allocate {}", words_for(requested));
  if (requested && is_impossible(*requested)) {
    finding.cause =
        "No machine has so much: a size that was never set, or that is broken. More memory would not help.";
    finding.confidence = Confidence::likely;
    finding.cures = {{"check the picture before it is used", "if (image.empty()) …", {}},
                     {"check that headers and library are of one version of OpenCV",
                      "pkg-config --modversion opencv4",
                      {}}};
    return finding;
  }
  finding.cause = "A picture, or a batch of them, was larger than the memory that was left.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"decode at a smaller size", "cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2)", {}},
                   {"keep fewer frames at once", "cv2.VideoCapture.set(cv2.CAP_PROP_BUFFERSIZE, 2)", {}}};
  return finding;
}

}  // namespace

LogRule opencv_rule() { return {"opencv", {"Insufficient memory", "OutOfMemoryError"}, read, explain}; }

}  // namespace headroom::doctor
