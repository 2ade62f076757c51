// Memory of the host that a program could not allocate, in the words of languages and libraries; shared
// memory; Ray, which ends tasks before the kernel has to. OpenCL, SYCL, Vulkan, OpenVINO and Rockchip's NPU.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rule_text.h"

namespace headroom::doctor {
namespace {

// The text before and behind these words, which the line has.
std::pair<std::string_view, std::string_view> around(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  return {line.substr(0, at), line.substr(at + words.size())};
}

// "MemoryError", or "MemoryError: …", at the begin of a line as Python prints it, or behind a prefix: "[x] ",
// "2026-11-23 10:00:00 ERROR worker: ".
void check_memory_error(std::string_view line, LogMessage& message) {
  const auto [text, rest] = around(line, "MemoryError");
  const std::string_view before = trim(text);
  constexpr std::string_view kPrefixes =
      "_exceptions._Array|builtins.|]|]:|pyarrow.lib.Arrow|ERROR|xception:|rror:";
  const bool is_logged = (has(before, "ERROR ") && before.ends_with(':')) || before.ends_with('|');
  const bool begins = before.empty() || is_logged || ends_with_any(before, kPrefixes);
  message.is_none = !begins || !(trim(rest).empty() || rest.front() == ':');
}

// "what():  std::bad_alloc", "caught std::bad_alloc"; source code has it as a type: "catch (const
// std::bad_alloc&)".
void check_bad_alloc(std::string_view line, LogMessage& message) {
  const auto [before, rest] = around(line, "std::bad_alloc");
  const bool is_type =
      starts_with_any(rest, "&| &|(|{|;|>|,|::") || before.ends_with("const ") || has(before, "catch (");
  message.is_none =
      is_type || !(ends_with_any(trim(before), ":|'|=|\"|caught") || has_any(before, "xception|rror"));
}

// Whether a call ended with the code between these texts: "vkCreateBuffer failed: NAME", "VkResult: NAME", "…
// error NAME (-4)". Not where the name is defined ("NAME = -2"), listed ("NAME or …") or explained ("returns
// NAME if …").
bool is_result(std::string_view before, std::string_view rest) {
  const std::string text = to_lower(trim(before));
  rest = trim(rest);
  if (text.ends_with('|') || rest.starts_with('|')) return false;
  return has_any(to_lower(before), "fail|error|result|return|exception|fatal|status|err=|err:|err |): ") &&
         !has_any(text, "error codes|spec states") && !ends_with_any(text, ",| or| and|returns") &&
         !starts_with_any(rest, "=|,|/|or |and |if |when the |when a |is |means ");
}

void check_code(std::string_view line, LogMessage& message) {
  static const auto kCodes = split_words(
      "CL_MEM_OBJECT_ALLOCATION_FAILURE CL_OUT_OF_RESOURCES CL_OUT_OF_HOST_MEMORY RKNN_ERR_MALLOC_FAIL "
      "UR_RESULT_ERROR_OUT_OF_RESOURCES UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY VK_ERROR_OUT_OF_DEVICE_MEMORY "
      "VK_ERROR_OUT_OF_HOST_MEMORY ERROR_OUT_OF_DEVICE_MEMORY ERROR_OUT_OF_HOST_MEMORY");
  message.is_none = std::ranges::none_of(kCodes, [line](std::string_view code) {
    if (!has(line, code)) return false;
    const auto [before, rest] = around(line, code);
    const bool is_whole =
        (before.empty() || !is_name_letter(before.back())) && (rest.empty() || !is_name_letter(rest.front()));
    return is_whole && is_result(before, rest);
  });
}

}  // namespace

RuleFamily host_rules() {
  return {R"rules(
# usbfs: the kernel's memory for USB transfers of programs, 16 MiB for all of them. libusb and cameras on it
# report ENOMEM, though the machine has memory. librealsense prints one line for each endpoint.
rule usbfs: is_not_of_memory
  line messenger-libusb && ": Cannot allocate memory" -> part=request
  line submiturb failed && errno=12 -> part=libusb
  line ailed && LIBUSB_ERROR_NO_MEM -> part=transfer
  line rs2_open_multiple && Cannot allocate memory -> part=open
  line USBDEVFS_SUBMITURB && ENOMEM -> part=ioctl
  line libusb && returned error && Out of memory -> part=request
  finding usbfs-memory-full
    title A USB device could not start its transfers: the kernel's limit for USB buffers was reached
    cause The machine's memory did not run out. The buffers of all USB transfers share usbfs_memory_mb, 16 MB
          by default. Several cameras or large images need more. The USB controller's bandwidth may be used up
          as well.
    cure raise the limit until the next restart, in MB => echo 256 | sudo tee
          /sys/module/usbcore/parameters/usbfs_memory_mb
    cure raise it for good, on the kernel's command line => usbcore.usbfs_memory_mb=256
    cure if it still fails, use less bandwidth: smaller images, a lower rate, or another USB controller =>
          lsusb -t

rule host-memory
  line DefaultCPUAllocator && you tried to allocate {requested_bytes} -> told_by=PyTorch
  or seems to have been called with negative number: {requested_bytes}
  line Unable to allocate {requested_bytes} && array with shape -> told_by=NumPy
  line .ArrowMemoryError: …alloc of size {requested_bytes} failed -> told_by=Arrow; none=failed over
  line .ArrowMemoryError -> told_by=Arrow; call=check_memory_error
  line MemoryError -> told_by=Python; call=check_memory_error; none=CUDA error
  line std::bad_alloc -> told_by=C++; call=check_bad_alloc; none=^Fix; none=CUDA error
    figures throwing an instance => part=terminate || what() => part=what
  line runtime: out of memory -> figures=cannot allocate {requested_bytes} || told_by=Go
  line x264…alloc of size {requested_bytes} failed -> told_by=libx264
  line alloc of size {requested_bytes} failed -> told_by=malloc; none=failed over
  line memory allocation of {requested_bytes} bytes failed -> told_by=Rust; none=failed over
  line : out of memory allocating {requested_bytes} || LLVM ERROR: out of memory -> told_by=a compiler
  or "virtual memory exhausted: "
  line mmap({requested_bytes} bytes) failed; errno 12 -> told_by=InnoDB
  # What the C library says of ENOMEM. earlyoom says at each start "Could not lock memory - continuing anyway:
  # …".
  line annot allocate memory -> told_by=the system
    any Errno 12 || mmap || fork || errno=12 || "ailed: " || "ailed to " || "rror: " || : Cannot allocate
          memory$ || : cannot allocate memory$
    none alling back || ontinuing anyway
  finding host-out-of-memory when wrong_size
    title A program could not allocate host memory[[: it asked for {requested}]] (reported by {told_by})
    cause {cause_of_wrong_size}
    cure check the shapes and indices at that line of the program
  finding host-out-of-memory possible
    cause The kernel refused the request. Possible reasons: a limit of the process (ulimit -v, a control
          group), strict overcommit, or a request larger than memory and swap.
    cure compile one file at a time: each compiler process takes one GiB or more => MAX_JOBS=1
          CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND :: when told_by=a compiler
    cure @shell-limits
    cure @trace-stacks :: when told_by!=a compiler
    cure process the data in smaller pieces, or map the file => numpy.load(path, mmap_mode='r') :: saves
          requested_bytes :: when told_by~Py, told_by!=PyTorch
    cure read in batches, or map the file => pyarrow.dataset.dataset(path).to_batches();
          pyarrow.memory_map(path) :: saves requested_bytes :: when told_by=Arrow

# Runtimes with a heap of their own refuse at its limit, which is far below the machine's memory by default.
rule managed-heap
  line java.lang.OutOfMemoryError: Java heap space -> told_by=Java; none=-XX:OnOutOfMemoryError
  line java.lang.OutOfMemoryError: GC overhead limit exceeded -> told_by=Java; heap=collecting
  line java.lang.OutOfMemoryError: Metaspace -> told_by=Java; heap=classes
  line JavaScript heap out of memory && FATAL ERROR: -> told_by=Node.js
  finding managed-heap-full certain
    title The heap of {told_by} reached its own limit[[if heap=classes: (the classes, Metaspace)]]
    cause The machine's memory did not run out. {told_by} sets the limit of its heap at its start, and the
          program kept more than that, or leaks.
    cure raise the limit, if the machine has room => java -Xmx2g … :: when told_by=Java, heap!=classes
    cure raise the limit of the classes => java -XX:MaxMetaspaceSize=512m … :: when heap=classes
    cure raise the limit, if the machine has room => NODE_OPTIONS=--max-old-space-size=2048 node … :: when
          told_by=Node.js
    cure see which objects fill the heap => jcmd PID GC.class_histogram :: when told_by=Java

# Most often /dev/shm is full, through which processes exchange data: containers give it 64 MiB by default.
# PyTorch's DataLoader ends with a bus error then.
rule shared-memory
  line Unexpected bus error encountered in worker && insufficient shared memory -> told_by=PyTorch's
        DataLoader; part=bus error
  line out of shared memory && dataloader -> told_by=PyTorch's DataLoader; part=killed
  line Failed to increase the shared memory pool size… to {requested_bytes} bytes -> told_by=Triton's Python
        backend; part=triton
  # As an error ends, or is followed by where it was; not "… device test for /dev/shm passed".
  line /dev/shm && No space left on device -> told_by=the system; part=file
    any device$ || on device: || on device; || on device. || on device, || on device' || "on device"" || on
          device) || on device]
  line unable to resize file < || unable to allocate shared memory(shm) -> told_by=PyTorch; part=file
  # Older versions say only where in the source it was.
  or unable to write to file </torch_…>$ || unable to write to file </torch_…> at /
  or unable to write to file </torch_ && No space left on device
  or unable to open shared memory object < && No space left on device
  finding shared-memory-full
    title Shared memory (/dev/shm) was full (reported by {told_by})
    cause Processes exchange data through /dev/shm, above all the batches of a data loader. Its size is half
          of the machine's memory, or 64 MiB in a container. The kernel charges its pages to the process that
          wrote them.
    cure give the container more shared memory => docker run --shm-size=1g …
    cure or use the host's shared memory => docker run --ipc=host …
    cure load data in the main process, or with fewer workers => DataLoader(…, num_workers=0) :: when
          told_by!=Triton's Python backend
    cure start each model instance with less (at least 1 MiB), and run fewer instances => tritonserver
          --backend-config=python,shm-default-byte-size=1048576 :: when told_by=Triton's Python backend
    cure see how full it is, and which files fill it => df -h /dev/shm; ls -lS /dev/shm | head

# An order of imports that fails on AArch64, and no want of memory.
rule static-tls
  line cannot allocate memory in static TLS block
    figures rror: {library}: cannot allocate || ^{library}: cannot allocate
  finding static-tls-block note certain
    title A library was loaded too late for its thread-local storage; memory did not run out
    cause The loader reserves a small block of thread-local storage for libraries that are loaded later. Other
          libraries used it up first.
    cure load the library at the start, or import it first =>
          LD_PRELOAD={library:shell|/usr/lib/aarch64-linux-gnu/libgomp.so.1}

# Ray ends tasks and actors where the node's memory is used up to a threshold of its own. Its GB are GiB.
rule ray: from_outside repeats_kills
  figures IP: {node:word} || ", name={task}," || (name={task}, || pid={pid:int} || memory
        used={resident_bytes} || " was running was {used_bytes} / {total_bytes}" || memory usage threshold of
        {threshold:decimal}
  line "ray.exceptions.OutOfMemoryError: " && " killed due to the node running low on memory" ->
        part=exception
  line Memory on the node ( && " where the " -> part=node
    figures memory usage threshold of {threshold:decimal} || if !threshold => may_go_on
  line {workers:int>0} Workers (tasks / actors) killed due to memory pressure (OOM) -> part=raylet
  finding process-killed-for-memory certain
    title Ray killed [[the task {task}]][[if !task, workers>1:{workers} workers]][[if !task, !workers>1:a task
          or an actor]]: the node[[ {node}]] ran low on memory
    cause [[{used_bytes} of {total_bytes} of the node's memory were used]][[if !used_bytes:More of the node's
          memory was used]][[, above the share of {threshold} that Ray allows]][[if !threshold, used_bytes:,
          more than Ray allows]][[if !threshold, !used_bytes: than Ray allows]].[[ The task held
          {resident_bytes}.]] Ray then kills the most recent task that it can restart, and retries it. That
          task is not always the one that grew.
    cure declare the memory of a task, so that Ray runs fewer at once =>
          @ray.remote(memory={resident_bytes/4*5:count|BYTES})
    cure run fewer tasks at once: reserve one more CPU for each => @ray.remote(num_cpus=2)
    cure @see-holders
    cure raise Ray's threshold, if no other program needs the rest => RAY_memory_usage_threshold=0.98 ray
          start --head

cures see-opencl-device: see the device's total memory and its limit for one allocation => clinfo | grep -iE
      'global memory size|max memory allocation|local memory size'

rule opencl
  # The context's callback tells it before the call does.
  figures " error executing CL_COMMAND_" => part=callback || part=call || subject={code}
  line CL_MEM_OBJECT_ALLOCATION_FAILURE -> code=CL_MEM_OBJECT_ALLOCATION_FAILURE; call=check_code
  line CL_OUT_OF_RESOURCES -> code=CL_OUT_OF_RESOURCES; call=check_code
  line CL_OUT_OF_HOST_MEMORY -> code=CL_OUT_OF_HOST_MEMORY; call=check_code
  line UR_RESULT_ERROR_OUT_OF_RESOURCES -> code=UR_RESULT_ERROR_OUT_OF_RESOURCES; call=check_code
  line UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY -> code=UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY; call=check_code
  line clEnqueue…failed with error code -5 (Out of resources) -> code=CL_OUT_OF_RESOURCES
  finding opencl-out-of-memory possible when code~OUT_OF_HOST_MEMORY
    title OpenCL could not allocate host memory ({code})
    cause The driver could not allocate host memory: RAM was full, or the process reached a limit. Some
          drivers also report other failures with this code.
    cure @see-holders-now @see-opencl-device
    cure check the shell's limits => ulimit -a
  finding opencl-out-of-memory possible when code~OUT_OF_DEVICE_MEMORY
    title SYCL could not allocate device memory ({code})
    cause The device's memory was full, or one buffer exceeds the driver's limit for one allocation.
    cure @see-holders-now @see-opencl-device @more-than-intels-piece @smaller-batch
  finding opencl-out-of-memory warning possible when code~OUT_OF_RESOURCES
    title [[if code~CL_:OpenCL]][[if !code~CL_:SYCL]] ran out of a resource of the device ({code})
    cause The device's memory was full, or the GPU kernel needs more registers or local memory than a
          work-group has. NVIDIA's driver also reports out-of-bounds accesses of a GPU kernel with this code.
    cure @see-holders-now @see-opencl-device
    cure use smaller buffers, and smaller work-groups
  finding opencl-out-of-memory possible
    title OpenCL could not allocate a buffer (CL_MEM_OBJECT_ALLOCATION_FAILURE)
    cause The device's memory was full. Or the buffer exceeds the limit of one allocation
          (CL_DEVICE_MAX_MEM_ALLOC_SIZE, often a quarter of the memory).
    cure @see-holders-now @see-opencl-device
    cure split the computation into smaller buffers

rule vulkan: told_better_by=ggml
  # ggml's own words stand beside those of the driver: "MESA: error: …".
  # ncnn prints Vulkan's number of an error: -2 is VK_ERROR_OUT_OF_DEVICE_MEMORY, -1 that of the host's.
  line vkAllocateMemory failed {:int=-1} -> memory=host; runtime=ncnn; subject=host; part=number
  line vkAllocateMemory failed {:int=-2} -> runtime=ncnn; part=number
  # Omniverse and Isaac Sim.
  line "Out of GPU memory allocating resource " -> part=resource; figures=[size: {requested_bytes}
  line ERROR_OUT_OF_HOST_MEMORY -> memory=host; subject=host; call=check_code
    figures VkResult: => part=result || part=code
  line ": ErrorOutOfHostMemory" -> memory=host; subject=host; part=code
  line ERROR_OUT_OF_DEVICE_MEMORY -> call=check_code; figures=VkResult: => part=result || part=code
  finding vulkan-out-of-memory possible when memory=host
    title Vulkan could not allocate host memory[[: the program asked for {requested}]]
    cause The driver could not allocate host memory: RAM was full, or the process reached a limit.
    cure @see-holders-now @shell-limits
  finding vulkan-out-of-memory possible when runtime=ncnn
    title Vulkan could not allocate GPU memory[[: the program asked for {requested}]]
    cause The GPU's memory was full, or one allocation exceeded the driver's limit (maxMemoryAllocationSize).
          The message does not say which.
    cure @see-holders-now
    cure use smaller tiles (waifu2x-, realesrgan-, realcugan-ncnn-vulkan) => -t 128
    cure or, in your own program, compute on the CPU => net.opt.use_vulkan_compute = false;
    cure @see-vulkan-limit
  finding vulkan-out-of-memory possible
    cure @of-vulkan

# AMD's and ATI's GPUs: Mesa's drivers (radv, radeonsi, r600) and the kernel's. The driver prints a refused
# buffer in four lines or more. Its domains: 2 is GTT, 4 is VRAM, 6 is either.
rule amd-gpu: told_better_by=ggml
  line amdgpu: Failed to allocate a buffer: || radeon: Failed to allocate a buffer: -> part=buffer
  line "amdgpu:  size  : {requested_bytes}" || "radeon:  size  : {requested_bytes}" -> part=size; is_addition
  line "amdgpu:  domains  : {:int}" || "radeon:  domains  : {:int}" -> part=domains; is_addition
    figures "domains  : 2" => domain=GTT || "domains  : 4" => domain=VRAM
  line amdgpu: Not enough memory for command submission || radeon: Not enough memory for command submission ->
        part=submission
  line amdgpu_cs_ioctl && Not enough memory for command submission -> part=kernel
  finding amdgpu-out-of-memory when domain=GTT
    title AMD's GPU driver refused [[a buffer of {requested_bytes}]][[if !requested_bytes:memory]][[ in
          {domain}]]
    cause GTT is host memory that the GPU may use: a share of RAM, most often half. The other buffers in it
          left less than this one needs.
    cure see how much of it is in use => grep . /sys/class/drm/card*/device/mem_info_gtt_*
    cure use a smaller model, context or batch on the GPU
    cure let the GPU use 3/4 of RAM, on the kernel's command line (in pages; this prints it) => echo
          ttm.pages_limit=$(awk '/MemTotal/ {print int($2*3/16)}' /proc/meminfo)
  finding amdgpu-out-of-memory when domain=VRAM
    cause VRAM is the GPU's own memory, or on an APU what the firmware reserves for it. The other buffers in it
          left less than this one needs.
    cure see how much of it is in use => grep . /sys/class/drm/card*/device/mem_info_vram_*
    cure use a smaller model, context or batch on the GPU
    cure on an APU, reserve more memory for the GPU in the firmware (UMA frame buffer size)
  finding amdgpu-out-of-memory possible
    cause The GPU's memory (VRAM), or the host memory that it may use (GTT), was full. The message does not say
          which.
    cure see how much of both is in use => grep . /sys/class/drm/card*/device/mem_info_*
    cure use a smaller model, context or batch on the GPU

# OpenVINO's plug-in for Intel's GPUs compares each buffer with what the device gives in one piece, and with
# what is left.
figures of-openvino
  equested {requested_bytes} || equired {requested_bytes}
  max alloc size supported by device is {largest_bytes} || max alloc size is {largest_bytes}
  already occupied : {allocated_bytes}
  available memory size is {total_bytes} || but memory size is {total_bytes}
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
  line failed to malloc npu memory -> part=malloc; figures=size: {requested_bytes}
  line RKNN_ERR_MALLOC_FAIL -> part=result; call=check_code
  # The driver's answer: 12 is ENOMEM.
  line RKNN…failed to …handle…errno: {:int=12} -> part=handle
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
)rules",
          {{"check_memory_error", check_memory_error},
           {"check_bad_alloc", check_bad_alloc},
           {"check_code", check_code}}};
}

}  // namespace headroom::doctor
