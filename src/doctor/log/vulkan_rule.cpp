// Vulkan had no memory, by the names of its error codes, from whatever program; and what NVIDIA's Omniverse
// and Isaac Sim make of it. The words of Vulkan's C++ header, "ErrorOutOfDeviceMemory", are ggml's as well
// (ggml_rule.cpp).
#include <fmt/format.h>

#include "doctor/log/error_code_text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"
#include "doctor/log/vulkan_messages.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kNcnn = "ncnn";

// ncnn prints Vulkan's number of an error: "vkAllocateMemory failed -2" is VK_ERROR_OUT_OF_DEVICE_MEMORY, -1
// that of the host's. "-1000072003" begins with the same digit.
std::optional<LogMessage> read_number(std::string_view line) {
  const auto number = text_after(line, "vkAllocateMemory failed -");
  if (!number || number->empty()) return std::nullopt;
  const bool is_host = number->front() == '1', is_device = number->front() == '2';
  const bool is_whole = number->size() == 1 || number->substr(1).find_first_of("0123456789") != 0;
  if (!is_whole || !(is_host || is_device)) return std::nullopt;
  LogMessage message;
  if (is_host) message.add("memory", "host");
  message.subject = message.text("memory");
  message.part = "number";
  message.add("runtime", kNcnn);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto numbered = read_number(line)) return numbered;
  LogMessage message;
  // "Out of GPU memory allocating resource 'x' [size: 134217728]"
  if (const auto resource = text_after(line, "Out of GPU memory allocating resource ")) {
    add_requested(message, text_after(*resource, "[size: "));
    message.part = "resource";
    return message;
  }
  // "VkResult: ERROR_OUT_OF_DEVICE_MEMORY", "vkCreateBuffer failed: VK_ERROR_OUT_OF_DEVICE_MEMORY",
  // "… : vk::Device::createBuffer: ErrorOutOfHostMemory"
  const bool is_host = tells_error_code(line, "VK_ERROR_OUT_OF_HOST_MEMORY") ||
                       tells_error_code(line, "ERROR_OUT_OF_HOST_MEMORY") ||
                       has(line, ": ErrorOutOfHostMemory");
  if (!is_host && !tells_error_code(line, "VK_ERROR_OUT_OF_DEVICE_MEMORY") &&
      !tells_error_code(line, "ERROR_OUT_OF_DEVICE_MEMORY"))
    return std::nullopt;
  if (is_host) message.add("memory", "host");
  message.subject = message.text("memory");
  // "VkResult: ERROR_OUT_OF_HOST_MEMORY", and the call that had it: "VkCreateFence failed with …".
  message.part = has(line, "VkResult: ") ? "result" : "code";
  if (has(line, "reateFence failed") || has(line, "reateSemaphore failed")) message.add("wanted", "handle");
  return message;
}

}  // namespace

Finding explain_vulkan(const LogMessage& message) {
  const bool is_host = message.text("memory") == "host";
  const std::string requested = words_for_requested(message, "");
  Finding finding;
  finding.id = "vulkan-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("Vulkan could not allocate {} memory{}", is_host ? "host" : "GPU",
                              requested.empty() ? "" : ": the program asked for " + requested);
  finding.cause =
      is_host ? "The driver could not allocate host memory: RAM was full, or the process reached a limit."
              : "The GPU's memory was full, or one allocation exceeded the driver's limit "
                "(maxMemoryAllocationSize). The message does not say which.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"see which processes hold the memory while it happens", "headroom top", {}},
                   {"use smaller textures, buffers or windows", "", {}}};
  if (message.text("wanted") == "handle") {  // which takes next to no memory
    finding.cause =
        "The program asked for a fence or a semaphore, which need almost no memory. Either the driver has no "
        "handles left, or the process reached a limit, for example of file descriptors.";
    finding.cures = {{"check the shell's limits, also for open files", "ulimit -a", {}},
                     {"read the driver's messages", "sudo dmesg | grep -iE 'NVRM|nvgpu|amdgpu|xe '", {}}};
    return finding;
  }
  if (!is_host && message.text("runtime") == kNcnn) {
    finding.cures[1] = {"use smaller tiles (waifu2x-, realesrgan-, realcugan-ncnn-vulkan)", "-t 128", {}};
    finding.cures.push_back(
        {"or, in your own program, compute on the CPU", "net.opt.use_vulkan_compute = false;", {}});
  }
  if (is_host)
    finding.cures[1] = {"check the shell's limits", "ulimit -a; cat /proc/sys/vm/overcommit_memory", {}};
  else
    finding.cures.push_back({"see the driver's largest allocation",
                             "vulkaninfo | grep -E 'maxMemoryAllocationSize|heapSize|size.*GiB'",
                             {}});
  return finding;
}

LogRule vulkan_rule() {
  LogRule rule{"vulkan",
               {"OUT_OF_DEVICE_MEMORY", "OUT_OF_HOST_MEMORY", "OutOfHostMemory", "f GPU memory allocating",
                "vkAllocateMemory failed -"},
               read,
               explain_vulkan};
  rule.told_better_by = "ggml";  // whose own words stand beside those of the driver: "MESA: error: …"
  return rule;
}

}  // namespace headroom::doctor
