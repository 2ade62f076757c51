// OpenCL, SYCL, Vulkan, OpenVINO and Rockchip's NPU.
#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

bool is_of_name(char letter) {
  return letter == '_' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

// Text after a code that is defined, listed or explained.
bool is_told_of(std::string_view rest) {
  constexpr std::string_view kBegins[] = {"=", ",", "|", "/", "or ", "and ", "if ", "when ", "is ", "means "};
  const std::string_view text = trim(rest);
  if (text.starts_with("when calling ")) return false;  // "Error CL_… when calling clEnqueueWriteBuffer"
  return starts_with_any(text, kBegins);
}

// Text before a code that a call ended with.
bool is_result(std::string_view before) {
  constexpr std::string_view kWords[] = {"fail",  "error",  "result", "return", "exception",
                                         "fatal", "status", "err=",   "err:",   "err "};
  constexpr std::string_view kOfManuals[] = {"returns ", "error codes", "spec states"};
  const std::string text = to_lower(before);
  if (text.ends_with(kOfManuals[0]) || has(text, kOfManuals[1]) || has(text, kOfManuals[2])) return false;
  if (text.ends_with("): ")) return true;  // "clEnqueueNDRangeKernel(): CL_OUT_OF_RESOURCES"
  return has_any(text, kWords);
}

// Whether a call ended with this code: "vkCreateBuffer failed: NAME", "VkResult: NAME", "… error NAME (-4)".
// Not where the name is defined ("NAME = -2"), listed ("NAME or …") or explained ("returns NAME if …").
bool tells_error_code(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == line.npos) return false;
  const std::string_view before = line.substr(0, at), rest = line.substr(at + name.size());
  if (!before.empty() && is_of_name(before.back())) return false;
  if (!rest.empty() && is_of_name(rest.front())) return false;
  const std::string_view lead = trim(before);
  if (lead.ends_with(',') || lead.ends_with('|') || lead.ends_with(" or") || lead.ends_with(" and"))
    return false;
  return is_result(before) && !is_told_of(rest);
}

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

constexpr std::string_view kAcceleratorsText = R"rules(
cures see-opencl-device
  cure see the device's total memory and its limit for one allocation => clinfo | grep -iE 'global memory
        size|max memory allocation|local memory size'

rule opencl
  read_first read_opencl
  anchors OBJECT_ALLOCATION_FAILURE || OUT_OF_RESOURCES || OUT_OF_HOST_MEMORY || OUT_OF_DEVICE_MEMORY
  line clEnqueue…failed with error code -5 (Out of resources) -> code=CL_OUT_OF_RESOURCES; subject={code};
        part=call
  finding opencl-out-of-memory possible when code~OUT_OF_HOST_MEMORY
    title [[if code~CL_:OpenCL]][[if !code~CL_:SYCL]] could not allocate host memory ({code})
    cause The driver could not allocate host memory: RAM was full, or the process reached a limit. Some
          drivers also report other failures with this code.
    cure @see-holders-now
    cure @see-opencl-device
    cure check the shell's limits => ulimit -a
  finding opencl-out-of-memory possible when code~OUT_OF_DEVICE_MEMORY
    title SYCL could not allocate device memory ({code})
    cause The device's memory was full, or one buffer exceeds the driver's limit for one allocation.
    cure @see-holders-now
    cure @see-opencl-device
    cure @more-than-intels-piece
    cure @smaller-batch
  finding opencl-out-of-memory warning possible when code~OUT_OF_RESOURCES
    title [[if code~CL_:OpenCL]][[if !code~CL_:SYCL]] ran out of a resource of the device ({code})
    cause The device's memory was full, or the GPU kernel needs more registers or local memory than a
          work-group has. NVIDIA's driver also reports out-of-bounds accesses of a GPU kernel with this code.
    cure @see-holders-now
    cure @see-opencl-device
    cure use smaller buffers, and smaller work-groups
  finding opencl-out-of-memory possible
    title OpenCL could not allocate a buffer (CL_MEM_OBJECT_ALLOCATION_FAILURE)
    cause The device's memory was full. Or the buffer exceeds the limit of one allocation
          (CL_DEVICE_MAX_MEM_ALLOC_SIZE, often a quarter of the memory).
    cure @see-holders-now
    cure @see-opencl-device
    cure split the computation into smaller buffers

rule vulkan
  # ggml's own words stand beside those of the driver: "MESA: error: …".
  told_better_by ggml
  anchors OUT_OF_DEVICE_MEMORY || OUT_OF_HOST_MEMORY || OutOfHostMemory
  # ncnn prints Vulkan's number of an error: -2 is VK_ERROR_OUT_OF_DEVICE_MEMORY, -1 that of the host's.
  line vkAllocateMemory failed {:int=-1} -> memory=host; runtime=ncnn; subject=host; part=number
  line vkAllocateMemory failed {:int=-2} -> runtime=ncnn; part=number
  # Omniverse and Isaac Sim.
  line "Out of GPU memory allocating resource " -> part=resource
    figures [size: {requested_bytes}
  line -> memory=host; subject=host; check=tells_vulkan_host; add=set_vulkan_part
  line -> check=tells_vulkan_device; add=set_vulkan_part
  finding vulkan-out-of-memory possible when memory=host
    title Vulkan could not allocate host memory[[: the program asked for {requested}]]
    cause The driver could not allocate host memory: RAM was full, or the process reached a limit.
    cure @see-holders-now
    cure @shell-limits
  finding vulkan-out-of-memory possible when runtime=ncnn
    title Vulkan could not allocate GPU memory[[: the program asked for {requested}]]
    cause The GPU's memory was full, or one allocation exceeded the driver's limit (maxMemoryAllocationSize).
          The message does not say which.
    cure @see-holders-now
    cure use smaller tiles (waifu2x-, realesrgan-, realcugan-ncnn-vulkan) => -t 128
    cure or, in your own program, compute on the CPU => net.opt.use_vulkan_compute = false;
    cure see the driver's largest allocation => vulkaninfo | grep -E
          'maxMemoryAllocationSize|heapSize|size.*GiB'
  finding vulkan-out-of-memory possible
    cure @see-holders-now
    cure use smaller textures, buffers or windows
    cure see the driver's largest allocation => vulkaninfo | grep -E
          'maxMemoryAllocationSize|heapSize|size.*GiB'

# OpenVINO's plug-in for Intel's GPUs compares each buffer with what the device gives in one piece, and with
# what is left.
figures of-openvino
  equested {requested_bytes}
  equired {requested_bytes}
  max alloc size supported by device is {largest_bytes}
  max alloc size is {largest_bytes}
  already occupied : {allocated_bytes}
  available memory size is {total_bytes}
  but memory size is {total_bytes}
rule openvino
  line "Exceeded max size of memory object allocation: " -> figures=@of-openvino; subject=one piece
  line "Exceeded max size of memory allocation: " -> figures=@of-openvino; subject=all
  finding openvino-out-of-memory when wrong_size
    title OpenVINO's GPU plug-in could not allocate {requested|some memory}[[: the device's limit for one
          allocation is {largest_bytes}]][[: the device has {total_bytes} in total]]
    cause {cause_of_wrong_size}
    cure give the model's inputs fixed shapes => model.reshape([1, 3, HEIGHT, WIDTH])
  finding openvino-out-of-memory certain when subject=one piece
    cause One buffer exceeds the driver's limit for one allocation. More free memory would not help.
    cure use a smaller batch or input, with fixed shapes => model.reshape([1, 3, HEIGHT, WIDTH])
    cure store the weights in 8 or 4 bits => nncf.compress_weights(model)
    cure compile the model for the CPU => core.compile_model(model, "CPU")
    cure allow larger buffers (OpenVINO 2025 and later; slower) => core.compile_model(model, "GPU",
          {"GPU_ENABLE_LARGE_ALLOCATIONS": True}) :: when subject=one piece
  finding openvino-out-of-memory certain
    cause The model's buffers together are larger than the device's memory: {allocated_bytes|some} were
          already in use.

# RKNN and RKLLM: the NPU's driver gave no memory. That is the machine's own; with the IOMMU off, the NPU has
# only what was reserved.
rule rknn
  anchors malloc npu memory || RKNN_ERR_MALLOC_FAIL || E RKNN || E/RKNN
  line failed to malloc npu memory -> part=malloc
    figures size: {requested_bytes}
  line -> part=result; check=tells_rknn_code
  # The driver's answer: 12 is ENOMEM. Each allocation is a file of the process: 24 is EMFILE.
  line RKNN…failed to …handle…errno: {:int=12} -> part=handle
  line RKNN…failed to …handle…errno: {:int=24} -> reason=too many open files; part=handle
  finding rknn-out-of-memory certain when reason
    title RKNN could not allocate NPU memory: the process has too many open files
    cause Each NPU allocation is an open file of the process. The process reached its limit of open files.
    cure raise the limit of open files => ulimit -n 65536
    cure release contexts and rknn_create_mem() buffers that the program no longer needs =>
          rknn_destroy_mem(), rknn_destroy()
  finding rknn-out-of-memory possible when wrong_size
    title RKNN could not allocate NPU memory[[: it asked for {requested}]]
    cause {cause_of_wrong_size}
    cure convert the model with the version of the board's librknnrt.so
  finding rknn-out-of-memory possible
    cause The NPU uses the machine's memory, and that was full. Or its IOMMU is off and the reserved memory
          was too small. Or one IOMMU domain (4 GiB of addresses) was full.
    cure @end-holder
    cure read the driver's messages, and check whether its IOMMU is off ("using non-iommu mode") => sudo dmesg
          | grep -i rknpu
    cure see how much memory is reserved and free (CMA): without the IOMMU, the NPU has no other memory =>
          grep Cma /proc/meminfo
    cure convert the model to 8-bit weights (half of fp16) => rknn.build(do_quantization=True,
          dataset='dataset.txt')
    cure if an RKLLM and an RKNN model run at once: move the RKLLM model to another IOMMU domain =>
          param.extend_param.base_domain_id = 1;
    cure if one model has several contexts: let them share its weights => rknn_dup_context()
)rules";

}  // namespace

RuleFamily accelerators_rules() {
  return {kAcceleratorsText,
          {{"read_opencl", read_opencl},
           {"tells_vulkan_host", tells_vulkan_host},
           {"tells_vulkan_device", tells_vulkan_device},
           {"set_vulkan_part", set_vulkan_part},
           {"tells_rknn_code", tells_rknn_code}}};
}

}  // namespace headroom::doctor
