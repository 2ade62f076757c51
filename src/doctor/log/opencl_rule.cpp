// OpenCL's error codes of lacking memory, from whatever program.
#include "doctor/log/error_code_text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kObject = "CL_MEM_OBJECT_ALLOCATION_FAILURE", kResources = "CL_OUT_OF_RESOURCES",
                           kHost = "CL_OUT_OF_HOST_MEMORY";

std::optional<LogMessage> read(std::string_view line) {
  for (const std::string_view code : {kObject, kResources, kHost})
    if (tells_error_code(line, code)) {
      LogMessage message;
      message.subject = code;
      message.add("code", code);
      return message;
    }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const std::string code = message.text("code");
  Finding finding;
  finding.id = "opencl-out-of-memory";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::possible;
  finding.cures = {{"see who holds the memory while it happens", "headroom top", {}},
                   {"see what the device gives, in all and in one piece",
                    "clinfo | grep -iE 'global memory size|max memory allocation|local memory size'",
                    {}}};
  if (code == kHost) {
    finding.title = "OpenCL got no host memory (CL_OUT_OF_HOST_MEMORY)";
    finding.cause =
        "The driver got no memory of the host: RAM, or what the process may have of it, was used "
        "up. Some drivers say so of other failures, too.";
    finding.cures.push_back({"see the limits of the shell", "ulimit -a", {}});
    return finding;
  }
  if (code == kResources) {
    finding.severity = Severity::warning;  // most often it is no want of memory
    finding.title = "OpenCL ran out of a resource of the device (CL_OUT_OF_RESOURCES)";
    finding.cause =
        "The device's memory was full, or the kernel takes more registers or local memory than a work-group "
        "has. NVIDIA's driver says so of a kernel that read or wrote outside of its buffers, too.";
    finding.cures.push_back({"use smaller buffers, and smaller work-groups", "", {}});
    return finding;
  }
  finding.title = "OpenCL could not allocate a buffer (CL_MEM_OBJECT_ALLOCATION_FAILURE)";
  finding.cause =
      "The device's memory was full, or the buffer is larger than the device gives in one piece "
      "(CL_DEVICE_MAX_MEM_ALLOC_SIZE, often a quarter of its memory).";
  finding.cures.push_back({"divide what it computes into smaller buffers", "", {}});
  return finding;
}

}  // namespace

LogRule opencl_rule() { return {"opencl", {"OBJECT_ALLOCATION_FAILURE", kResources, kHost}, read, explain}; }

}  // namespace headroom::doctor
