// OpenCL, SYCL, Vulkan, OpenVINO and Rockchip's NPU.
#include <algorithm>

#include "base/text.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/error_code_text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// SYCL's Unified Runtime, on which Intel's builds of PyTorch run, has codes of its own ("PI_…" up to 2024).
constexpr std::string_view kOpenclCodes[] = {"CL_MEM_OBJECT_ALLOCATION_FAILURE",
                                             "CL_OUT_OF_RESOURCES",
                                             "CL_OUT_OF_HOST_MEMORY",
                                             "UR_RESULT_ERROR_OUT_OF_RESOURCES",
                                             "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                                             "UR_RESULT_ERROR_OUT_OF_HOST_MEMORY",
                                             "PI_ERROR_OUT_OF_RESOURCES",
                                             "PI_ERROR_OUT_OF_HOST_MEMORY"};

// pyopencl's names lack the prefix: "clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE".
bool is_pyopencls(std::string_view line, std::string_view code) {
  const std::size_t at = line.find(" failed: " + std::string(code.substr(std::string_view("CL_").size())));
  const std::size_t begin = at == line.npos ? at : line.substr(0, at).find_last_of(" :");
  return at != line.npos && line.substr(begin == line.npos ? 0 : begin + 1).starts_with("cl");
}

std::optional<LogMessage> read_opencl(std::string_view line) {
  for (const std::string_view code : kOpenclCodes) {
    if (!tells_error_code(line, code) && !(code.starts_with("CL_") && is_pyopencls(line, code))) continue;
    LogMessage message;
    message.subject = code;
    message.add("code", code);
    // The context's callback tells it before the call does.
    message.part = has(line, " error executing CL_COMMAND_") ? "callback" : "call";
    return message;
  }
  return std::nullopt;
}

// "max alloc size" of "max alloc size: 268435456", in small letters; and the size.
std::pair<std::string, std::optional<Bytes>> name_and_size(std::string_view text) {
  const std::size_t colon = text.find_last_of(":=");
  const std::size_t digit = text.find_first_of("0123456789", colon == text.npos ? 0 : colon);
  if (digit == text.npos) return {};
  return {to_lower(trim(text.substr(0, colon == text.npos ? digit : colon))),
          leading_size(text.substr(digit))};
}

// What a program prints behind the error, or clinfo's words for it: "requested: 536870912 bytes", "max alloc
// size: 268435456", "CL_DEVICE_GLOBAL_MEM_SIZE = 1073741824".
std::optional<LogMessage> read_behind_opencl(std::string_view line) {
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

void derive_opencl(LogMessage& message) {
  message.add("library", is_word(message.text("code"), "CL_") ? "OpenCL" : "SYCL");
  const auto requested = message.bytes("requested_bytes"), largest = message.bytes("largest_buffer_bytes");
  if (requested && largest && largest->count > 0 && *requested > *largest)
    message.add("pieces", std::optional((requested->count - 1) / largest->count + 1));
}

constexpr std::string_view kVulkanCause =
    "The GPU's memory was full, or one allocation exceeded the driver's limit (maxMemoryAllocationSize). The "
    "message "
    "does not say which.";
constexpr CureRow kSeeLimits{"see the driver's largest allocation", kSeeVulkanLimits};

bool tells_vulkan_device(std::string_view line) {
  return tells_error_code(line, "VK_ERROR_OUT_OF_DEVICE_MEMORY") ||
         tells_error_code(line, "ERROR_OUT_OF_DEVICE_MEMORY");
}
bool tells_vulkan_host(std::string_view line) {
  return tells_error_code(line, "VK_ERROR_OUT_OF_HOST_MEMORY") ||
         tells_error_code(line, "ERROR_OUT_OF_HOST_MEMORY") || has(line, ": ErrorOutOfHostMemory");
}
bool tells_rknn_code(std::string_view line) { return tells_error_code(line, "RKNN_ERR_MALLOC_FAIL"); }

// "VkResult: ERROR_OUT_OF_HOST_MEMORY", and the call that had it: "VkCreateFence failed with …".
void set_vulkan_part(std::string_view line, LogMessage& message) {
  message.part = has(line, "VkResult: ") ? "result" : "code";
}

}  // namespace

LogRule opencl_rule() {
  constexpr std::string_view kId = "opencl-out-of-memory";
  constexpr CureRow kSeeDevice{
      "see the device's total memory and its limit for one allocation",
      "clinfo | grep -iE 'global memory size|max memory allocation|local memory size'"},
      kDivide{"split the computation into smaller buffers"};
  constexpr std::string_view kBufferTitle =
      "OpenCL could not allocate a buffer[[ of {requested_bytes}]] (CL_MEM_OBJECT_ALLOCATION_FAILURE)";
  return {
      .name = "opencl",
      .anchors = {"OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY",
                  "OUT_OF_DEVICE_MEMORY"},
      .read_first = read_opencl,
      .read_behind = read_behind_opencl,
      .lines_behind = 3,
      .wordings = {{.all = {"clEnqueue…failed with error code -5 (Out of resources)"},
                    .figures = {"code=CL_OUT_OF_RESOURCES"},
                    .subject = "{code}",
                    .part = "call"}},
      .explanations =
          {{.when = "code~OUT_OF_HOST_MEMORY",
            .id = kId,
            .confidence = Confidence::possible,
            .title = "{library} could not allocate host memory ({code})",
            .cause = "The driver could not allocate host memory: RAM was full, or the process reached a "
                     "limit. Some "
                     "drivers also report other failures with this code.",
            .cures = {kSeeHoldersNow, kSeeDevice, {"check the shell's limits", "ulimit -a"}}},
           {.when = "code~OUT_OF_DEVICE_MEMORY",
            .id = kId,
            .confidence = Confidence::possible,
            .title = "SYCL could not allocate device memory ({code})",
            .cause =
                "The device's memory was full, or one buffer exceeds the driver's limit for one allocation.",
            .cures = {kSeeHoldersNow, kSeeDevice, kMoreThanIntelsPiece, kSmallerBatch}},
           {.when = "code~OUT_OF_RESOURCES",
            .id = kId,
            .severity = Severity::warning,  // most often it is no want of memory
            .confidence = Confidence::possible,
            .title = "{library} ran out of a resource of the device ({code})",
            .cause =
                "The device's memory was full, or the GPU kernel needs more registers or local memory than a "
                "work-group has. NVIDIA's driver also reports out-of-bounds accesses of a GPU kernel with "
                "this "
                "code.",
            .cures = {kSeeHoldersNow, kSeeDevice, {"use smaller buffers, and smaller work-groups"}}},
           {.when = "pieces",
            .id = kId,
            .title = kBufferTitle,
            .cause = "The buffer exceeds {largest_buffer_bytes}, the device's limit for one allocation "
                     "(CL_DEVICE_MAX_MEM_ALLOC_SIZE). More free memory would not help.",
            .cures = {{"split the computation into {pieces} or more buffers"}, kSeeHoldersNow, kSeeDevice},
            .first_cure_meets_cause = true},
           {.when = "requested_bytes, largest_buffer_bytes",
            .id = kId,
            .title = kBufferTitle,
            .cause = "The device's memory was full. The buffer is not too large: the device allows up to "
                     "{largest_buffer_bytes} in one allocation.",
            .cures = {kSeeHoldersNow, kSeeDevice, kDivide}},
           {.id = kId,
            .confidence = Confidence::possible,
            .title = kBufferTitle,
            .cause = "The device's memory was full. Or the buffer exceeds the limit of one allocation "
                     "(CL_DEVICE_MAX_MEM_ALLOC_SIZE, often a quarter of the memory).",
            .cures = {kSeeHoldersNow, kSeeDevice, kDivide}}},
      .derive = derive_opencl};
}

// The words of Vulkan's C++ header, "ErrorOutOfDeviceMemory", are ggml's as well (ggml_rule()).
Explanation vulkan_device_explanation() {
  return {.id = "vulkan-out-of-memory",
          .confidence = Confidence::possible,
          .title = "Vulkan could not allocate GPU memory[[: the program asked for {requested}]]",
          .cause = kVulkanCause,
          .cures = {kSeeHoldersNow, {"use smaller textures, buffers or windows"}, kSeeLimits}};
}

LogRule vulkan_rule() {
  constexpr std::string_view kId = "vulkan-out-of-memory";
  const std::vector<Explanation> explanations{
      {.when = "memory=host",
       .id = kId,
       .confidence = Confidence::possible,
       .title = "Vulkan could not allocate host memory[[: the program asked for {requested}]]",
       .cause = "The driver could not allocate host memory: RAM was full, or the process reached a limit.",
       .cures = {kSeeHoldersNow, kShellLimits}},
      {.when = "runtime=ncnn",
       .id = kId,
       .confidence = Confidence::possible,
       .title = "Vulkan could not allocate GPU memory[[: the program asked for {requested}]]",
       .cause = kVulkanCause,
       .cures = {kSeeHoldersNow,
                 {"use smaller tiles (waifu2x-, realesrgan-, realcugan-ncnn-vulkan)", "-t 128"},
                 {"or, in your own program, compute on the CPU", "net.opt.use_vulkan_compute = false;"},
                 kSeeLimits}},
      vulkan_device_explanation()};
  return {
      .name = "vulkan",
      .anchors = {"OUT_OF_DEVICE_MEMORY", "OUT_OF_HOST_MEMORY", "OutOfHostMemory"},
      .told_better_by = "ggml",  // whose own words stand beside those of the driver: "MESA: error: …"
      // ncnn prints Vulkan's number of an error: -2 is VK_ERROR_OUT_OF_DEVICE_MEMORY, -1 that of the host's.
      .wordings = {{.all = {"vkAllocateMemory failed {:int=-1}"},
                    .figures = {"memory=host", "runtime=ncnn"},
                    .subject = "host",
                    .part = "number"},
                   {.all = {"vkAllocateMemory failed {:int=-2}"},
                    .figures = {"runtime=ncnn"},
                    .part = "number"},
                   // Omniverse and Isaac Sim.
                   {.all = {"Out of GPU memory allocating resource "},
                    .figures = {"[size: {requested_bytes}"},
                    .part = "resource"},
                   {.all = {},
                    .figures = {"memory=host"},
                    .subject = "host",
                    .check = tells_vulkan_host,
                    .add = set_vulkan_part},
                   {.all = {}, .check = tells_vulkan_device, .add = set_vulkan_part}},
      .explanations = explanations};
}

// OpenVINO's plug-in for Intel's GPUs compares each buffer with what the device gives in one piece, and with
// what is left.
LogRule openvino_rule() {
  constexpr std::string_view kId = "openvino-out-of-memory";
  constexpr std::string_view kTitle =
      "OpenVINO's GPU plug-in could not allocate {requested|some memory}[[: the device's limit for one "
      "allocation is "
      "{largest_bytes}]][[: the device has {total_bytes} in total]]";
  const std::vector<std::string_view> figures{"equested {requested_bytes}",
                                              "equired {requested_bytes}",
                                              "max alloc size supported by device is {largest_bytes}",
                                              "max alloc size is {largest_bytes}",
                                              "already occupied : {allocated_bytes}",
                                              "available memory size is {total_bytes}",
                                              "but memory size is {total_bytes}"};
  const std::vector<CureRow> cures{
      {"use a smaller batch or input, with fixed shapes", "model.reshape([1, 3, HEIGHT, WIDTH])"},
      {"store the weights in 8 or 4 bits", "nncf.compress_weights(model)"},
      {"compile the model for the CPU", "core.compile_model(model, \"CPU\")"},
      {"allow larger buffers (OpenVINO 2025 and later; slower)",
       "core.compile_model(model, \"GPU\", {\"GPU_ENABLE_LARGE_ALLOCATIONS\": True})", "",
       "subject=one piece"}};
  return {
      .name = "openvino",
      .wordings = {{.all = {"Exceeded max size of memory object allocation: "},
                    .figures = figures,
                    .subject = "one piece"},
                   {.all = {"Exceeded max size of memory allocation: "},
                    .figures = figures,
                    .subject = "all"}},
      .explanations = {
          {.when = "wrong_size",
           .id = kId,
           .title = kTitle,
           .cause = "{cause_of_wrong_size}",
           .cures = {{"give the model's inputs fixed shapes", "model.reshape([1, 3, HEIGHT, WIDTH])"}}},
          {.when = "subject=one piece",
           .id = kId,
           .confidence = Confidence::certain,
           .title = kTitle,
           .cause =
               "One buffer exceeds the driver's limit for one allocation. More free memory would not help.",
           .cures = cures},
          {.id = kId,
           .confidence = Confidence::certain,
           .title = kTitle,
           .cause = "The model's buffers together are larger than the device's memory: "
                    "{allocated_bytes|some} were "
                    "already in use.",
           .cures = cures}}};
}

// RKNN and RKLLM: the NPU's driver gave no memory. That is the machine's own; with the IOMMU off, the NPU has
// only what was reserved.
LogRule rknn_rule() {
  constexpr std::string_view kId = "rknn-out-of-memory";
  constexpr std::string_view kTitle = "RKNN could not allocate NPU memory[[: it asked for {requested}]]";
  return {
      .name = "rknn",
      .anchors = {"malloc npu memory", "RKNN_ERR_MALLOC_FAIL", "E RKNN", "E/RKNN"},
      .wordings =
          {{.all = {"failed to malloc npu memory"}, .figures = {"size: {requested_bytes}"}, .part = "malloc"},
           {.all = {}, .part = "result", .check = tells_rknn_code},
           // The driver's answer: 12 is ENOMEM. Each allocation is a file of the process: 24 is EMFILE.
           {.all = {"RKNN…failed to …handle…errno: {:int=12}"}, .part = "handle"},
           {.all = {"RKNN…failed to …handle…errno: {:int=24}"},
            .figures = {"reason=too many open files"},
            .part = "handle"}},
      .explanations = {
          {.when = "reason",
           .id = kId,
           .confidence = Confidence::certain,
           .title = "RKNN could not allocate NPU memory: the process has too many open files",
           .cause = "Each NPU allocation is an open file of the process. The process reached its limit of "
                    "open files.",
           .cures = {{"raise the limit of open files", "ulimit -n 65536"},
                     {"release contexts and rknn_create_mem() buffers that the program no longer needs",
                      "rknn_destroy_mem(), rknn_destroy()"}}},
          {.when = "wrong_size",
           .id = kId,
           .confidence = Confidence::possible,
           .title = kTitle,
           .cause = "{cause_of_wrong_size}",
           .cures = {{"convert the model with the version of the board's librknnrt.so"}}},
          {.id = kId,
           .confidence = Confidence::possible,
           .title = kTitle,
           .cause = "The NPU uses the machine's memory, and that was full. Or its IOMMU is off and the "
                    "reserved memory "
                    "was too small. Or one IOMMU domain (4 GiB of addresses) was full.",
           .cures = {
               kEndHolder,
               {"read the driver's messages, and check whether its IOMMU is off (\"using non-iommu mode\")",
                "sudo dmesg | grep -i rknpu"},
               {"see how much memory is reserved and free (CMA): without the IOMMU, the NPU has no other "
                "memory",
                "grep Cma /proc/meminfo"},
               {"convert the model to 8-bit weights (half of fp16)",
                "rknn.build(do_quantization=True, dataset='dataset.txt')"},
               {"if an RKLLM and an RKNN model run at once: move the RKLLM model to another IOMMU domain",
                "param.extend_param.base_domain_id = 1;"},
               {"if one model has several contexts: let them share its weights", "rknn_dup_context()"}}}}};
}

}  // namespace headroom::doctor
