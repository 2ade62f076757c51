// OpenCL's error codes of lacking memory, from whatever program; and those of SYCL's Unified Runtime, which
// Intel's builds of PyTorch and others run on, with OpenCL below it or not.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/error_code_text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kObject = "CL_MEM_OBJECT_ALLOCATION_FAILURE", kResources = "CL_OUT_OF_RESOURCES",
                           kHost = "CL_OUT_OF_HOST_MEMORY";

// pyopencl's names lack the prefix: "clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE".
bool is_pyopencls(std::string_view line, std::string_view code) {
  const std::string words = fmt::format(" failed: {}", code.substr(std::string_view("CL_").size()));
  const std::size_t at = line.find(words);
  const std::size_t begin = at == line.npos ? at : line.substr(0, at).find_last_of(" :");
  return at != line.npos && line.substr(begin == line.npos ? 0 : begin + 1).starts_with("cl");
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // The context's callback tells it before the call does: "… CL_… error executing CL_COMMAND_NDRANGE_KERNEL
  // on …".
  message.part = has(line, " error executing CL_COMMAND_") ? "callback" : "call";
  for (const std::string_view code : {kObject, kResources, kHost})
    if (tells_error_code(line, code) || is_pyopencls(line, code)) {
      message.subject = code;
      message.add("code", code);
      return message;
    }
  // "clEnqueueNDRangeKernel failed with error code -5 (Out of resources)"
  if (is_word(line, "clEnqueue") && has(line, " failed with error code -5 (Out of resources)")) {
    message.subject = kResources;
    message.add("code", kResources);
    return message;
  }
  // "UR backend failed. UR backend returns:40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)"; "PI_…" up to 2024.
  for (const std::string_view code :
       {"UR_RESULT_ERROR_OUT_OF_RESOURCES", "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "UR_RESULT_ERROR_OUT_OF_HOST_MEMORY", "PI_ERROR_OUT_OF_RESOURCES", "PI_ERROR_OUT_OF_HOST_MEMORY"})
    if (tells_error_code(line, code)) {
      message.subject = code;
      message.add("code", code);
      return message;
    }
  return std::nullopt;
}

// "max alloc size" of "max alloc size: 268435456", in small letters; and the size.
std::pair<std::string, std::optional<Bytes>> name_and_size(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t colon = text.find_last_of(":=");
  const std::size_t digit = text.find_first_of(kDigits, colon == text.npos ? 0 : colon);
  if (digit == text.npos) return {};
  std::string_view name = trim(text.substr(0, colon == text.npos ? digit : colon));
  return {to_lower(name), leading_size(text.substr(digit))};
}

// What a program prints behind the error, or clinfo's words for it: "requested: 536870912 bytes", "max alloc
// size: 268435456", "Max memory allocation   268435456 (256MiB)", "CL_DEVICE_GLOBAL_MEM_SIZE = 1073741824".
std::optional<LogMessage> read_behind(std::string_view line) {
  constexpr std::string_view kRequested[] = {"requested", "requested size", "requested bytes",
                                             "size requested", "request size"};
  LogMessage message;
  std::string text(line);
  for (std::size_t at = 0; (at = text.find(", ", at)) != text.npos;) text[at] = '\n';
  for (const std::string_view each : split(text, '\n')) {
    const auto [name, size] = name_and_size(each);
    const auto ends_name = [&name = name](std::string_view words) { return name.ends_with(words); };
    if (std::any_of(std::begin(kRequested), std::end(kRequested), ends_name))
      message.add("requested_bytes", size);
    else if (has(name, "max") && has(name, "alloc"))
      message.add("largest_buffer_bytes", size);
    else if (ends_name("global memory size") || ends_name("global_mem_size"))
      message.add("total_bytes", size);
  }
  if (message.figures.empty()) return std::nullopt;
  message.part = message.figures.front().name;
  return message;
}

// A buffer that was not got: larger than one may be, or all that is left is too little.
void explain_buffer(const LogMessage& message, Finding& finding) {
  const auto requested = message.bytes("requested_bytes"), largest = message.bytes("largest_buffer_bytes");
  finding.title = fmt::format("OpenCL could not allocate a buffer{} ({})",
                              requested ? " of " + format_bytes(*requested) : "", kObject);
  finding.cause =
      "The device's memory was full. Or the buffer exceeds the limit of one allocation "
      "(CL_DEVICE_MAX_MEM_ALLOC_SIZE, often a quarter of the memory).";
  Cure divide{"split the computation into smaller buffers", "", {}};
  const bool are_known = requested && largest && largest->count > 0;
  if (!are_known) {
    finding.cures.push_back(std::move(divide));
    return;
  }
  finding.confidence = Confidence::likely;
  if (*requested <= *largest) {
    finding.cause = fmt::format(
        "The device's memory was full. The buffer is not too large: the device allows up to {} in one "
        "allocation.",
        format_bytes(*largest));
    finding.cures.push_back(std::move(divide));
    return;
  }
  finding.cause = fmt::format(
      "The buffer exceeds {}, the device's limit for one allocation (CL_DEVICE_MAX_MEM_ALLOC_SIZE). More "
      "free memory would not help.",
      format_bytes(*largest));
  divide.what = fmt::format("split the computation into {} or more buffers",
                            (requested->count - 1) / largest->count + 1);
  finding.cures.insert(finding.cures.begin(), std::move(divide));
  finding.first_cure_meets_cause = true;
}

Finding explain(const LogMessage& message) {
  const std::string code = message.text("code");
  Finding finding;
  finding.id = "opencl-out-of-memory";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::possible;
  finding.cures = {{"see which processes hold the memory while it happens", "headroom top", {}},
                   {"see the device's total memory and its limit for one allocation",
                    "clinfo | grep -iE 'global memory size|max memory allocation|local memory size'",
                    {}}};
  const std::string name = is_word(code, "CL_") ? "OpenCL" : "SYCL";
  if (has(code, "OUT_OF_HOST_MEMORY")) {
    finding.title = fmt::format("{} could not allocate host memory ({})", name, code);
    finding.cause =
        "The driver could not allocate host memory: RAM was full, or the process reached a limit. Some "
        "drivers also report other failures with this code.";
    finding.cures.push_back({"check the shell's limits", "ulimit -a", {}});
    return finding;
  }
  if (code == "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY") {
    finding.title = fmt::format("SYCL could not allocate device memory ({})", code);
    finding.cause =
        "The device's memory was full, or one buffer exceeds the driver's limit for one allocation.";
    finding.cures.push_back({"allow Intel's driver to allocate more than 4 GiB in one piece",
                             "UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1",
                             {}});
    finding.cures.push_back({"use a smaller batch or input", "batch_size = batch_size // 2", {}});
    return finding;
  }
  if (has(code, "OUT_OF_RESOURCES")) {
    finding.severity = Severity::warning;  // most often it is no want of memory
    finding.title = fmt::format("{} ran out of a resource of the device ({})", name, code);
    finding.cause =
        "The device's memory was full, or the GPU kernel needs more registers or local memory than a "
        "work-group has. NVIDIA's driver also reports out-of-bounds accesses of a GPU kernel with this code.";
    finding.cures.push_back({"use smaller buffers, and smaller work-groups", "", {}});
    return finding;
  }
  explain_buffer(message, finding);
  return finding;
}

}  // namespace

LogRule opencl_rule() {
  LogRule rule{"opencl",
               {"OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY", "OUT_OF_DEVICE_MEMORY",
                "-5 (Out of resources)"},
               read,
               explain};
  rule.read_behind = read_behind;
  rule.lines_behind = 3;
  return rule;
}

}  // namespace headroom::doctor
