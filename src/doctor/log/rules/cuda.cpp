// CUDA's own words for memory that ran out, from whatever library, and those of cuBLAS and cuDNN. NVIDIA's
// drivers and tools: NvMap and nvgpu of a Jetson, the desktop driver, nvidia-smi, the camera stack.
// GStreamer, DeepStream, jetson.utils and OpenCV, which run on them.
#include "doctor/log/rule_text.h"
#include "doctor/log/rules/torch_cause.h"

namespace headroom::doctor {
namespace {

// Argus is the Jetson's camera stack. Each function that a failure passes through reports it: "(propagating
// from src/…, function X(), line N)".
void set_part_of_argus(std::string_view line, LogMessage& message) {
  message.part = line.substr(line.find("InsufficientMemory:"));
}

}  // namespace

RuleFamily cuda_rules() {
  return {R"rules(
# cuBLAS, cuDNN and their like could not make their handle or workspace.
rule cublas
  figures CUBLAS => library=CUBLAS || CUDNN => library=CUDNN || CUSOLVER => library=CUSOLVER || CUSPARSE =>
        library=CUSPARSE || CUFFT => library=CUFFT
  line STATUS_ALLOC_FAILED || _STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
  or _STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED || CUFFT_ALLOC_FAILED || the resource allocation failed
    any CUBLAS || CUDNN || CUSOLVER || CUSPARSE || CUFFT
  # PyTorch says this of a full GPU as well.
  line CUBLAS_STATUS_NOT_INITIALIZED || CUDNN_STATUS_NOT_INITIALIZED -> subject=not initialized
  finding cublas-allocation-failed possible when subject=not initialized
    title {library} could not be initialised: most often the GPU is full
    cause The GPU was full when the library was first used. Or an earlier GPU kernel failed, and this call is
          the first to report it: CUDA_LAUNCH_BLOCKING=1 shows which kernel.
    cure leave GPU memory outside PyTorch's pool => torch.cuda.set_per_process_memory_fraction(0.9)
    cure use a smaller workspace (PyTorch) => CUBLAS_WORKSPACE_CONFIG=:16:8
    cure use a smaller batch, or end other processes that use the GPU => nvidia-smi
  finding cublas-allocation-failed
    title {library} could not allocate its handle or workspace
    cause The GPU was full when the library was first used. The library allocates outside the framework's
          memory pool, and that pool held the rest.

# CuPy: "Out of memory allocating 8,000 bytes (allocated so far: 4,000 bytes, limit set to: 9,000 bytes)."
# Paddle: "Cannot allocate 1.5GB memory on GPU 0, 7.2GB memory has been allocated and available memory is …"
# Faiss: "alloc fail type TemporaryMemoryOverflow dev 0 space Device stream 0x1 size 1610612736 bytes"
figures of-cuda
  ut of memory allocating {requested_bytes}
  Cannot allocate {requested_bytes} memory on GPU {gpu:int}, {used_bytes} memory
  available memory is only {free_bytes} || alloc fail type {:word} dev {gpu:int}… size {requested_bytes}
  ailed to cudaMalloc {requested_bytes} || " bytes on device {gpu:int}"
  (failed to allocate {requested_bytes} || allocated so far: {allocated_bytes} || limit set to: {limit_bytes}
  "ut of memory error on GPU " => library=Paddle
  library=Faiss <= faiss::gpu || "alloc fail type "
  Cuda failure 'out of memory' => library=NCCL
  matxOutOfMemory => library=MatX
  library=NVENC <= OpenEncodeSessionEx || CreateBitstreamBuffer || _nvenc @
  library=NVDEC <= cuvid || CUVID
  library=HIP <= HIP error || HIP out of || HIPError || hipError || hipMalloc || ROCm error
  "alling back to " => goes_on
  # PyTorch's message goes on behind it.
  may_go_on <= " out of memory$" || " out of memory.$" || " out of memory. T"
rule cuda: derive=derive_server
  figures @of-torch-server || @of-torch-message
  # Triton's pools.
  line CNMEM_STATUS_OUT_OF_MEMORY, falling back to {:word} -> subject=pool
    figures with byte size {requested_bytes} || falling back to {fallback}
  line failed to allocate pinned system memory: no pinned memory pool, falling back to {fallback} ->
        subject=no pool
  # MatX throws it for every CUDA error of an allocation.
  line "matxException (matxOutOfMemory" -> figures=@of-cuda
  line CUDA_ERROR_OUT_OF_MEMORY || cudaErrorMemoryAllocation || hipErrorOutOfMemory || ut of memory ->
        figures=@of-cuda
    # The last are CuPy's and those of CUDA's samples.
    any CUDA || cuda || Cuda || ut of memory error on GPU || faiss::gpu || "alloc fail type " ||
      OpenEncodeSessionEx || CreateBitstreamBuffer || _nvenc @ || cuvid || CUVID || HIP error || HIP out of ||
      HIPError || hip || ROCm error || "GPUassert: " || " (allocated so far: " || (error code out of memory)
    # PyTorch's help behind its error, and a check with its answer.
    none Search for ` || "ut of memory... "
  finding cuda-out-of-memory note certain when subject=pool
    title A pool of GPU memory had no {requested_bytes|memory} left; the server continued with {fallback}
    cause The server's pool on the GPU is full. The server copies the rest from the host's memory.
    cure make the pool larger, in bytes => tritonserver
          --cuda-memory-pool-byte-size=0:{requested_bytes:bytes_above|BYTES}
  finding cuda-out-of-memory note certain when subject=no pool
    title Triton has no pool of pinned memory; it continued with {fallback}
    cause Nothing failed, but copies to a GPU are slower. Either Triton sees no GPU, or the size of the pool
          is set to 0.
    cure check whether the driver sees the GPU => nvidia-smi
    cure set the size of the pool, in bytes => tritonserver --pinned-memory-pool-byte-size=268435456
  # CuPy counts what its pool holds, and stays below a limit that the program sets.
  finding cuda-out-of-memory certain first_cure_meets_cause when limit_bytes-allocated_bytes<requested_bytes
    title CuPy reached the GPU memory limit that the program set: the program asked for {requested_bytes}
    cause CuPy's pool reached the limit that the program set: it held {allocated_bytes} of {limit_bytes}.
    cure raise or remove (0) CuPy's limit, also in CUPY_GPU_MEMORY_LIMIT =>
          cupy.get_default_memory_pool().set_limit(size={allocated_bytes+requested_bytes:count}) :: when
          limit_bytes-allocated_bytes<requested_bytes
    cure release idle blocks to the GPU => cupy.get_default_memory_pool().free_all_blocks() :: when
          allocated_bytes
    cure allocate memory on demand, so that other processes get memory too =>
          FLAGS_allocator_strategy=auto_growth :: when library=Paddle
    cure search for fewer vectors at once: the temporary buffer of Faiss grows with their number =>
          index.search(queries[i:i + 1024], k) :: when library=Faiss
    cure find the call that fails first: each GPU kernel then reports its own error => CUDA_LAUNCH_BLOCKING=1
          COMMAND :: when library=MatX
    cure @of-server @see-holders-now
    cure measure how much memory the program needs, on the host and on the GPU => headroom trace -- COMMAND
    cure @drop-page-cache :: when unified_memory, !limit_bytes
    cure @drop-page-cache-on-jetson :: when library!=Paddle, library!=Faiss, library!=NCCL, library!=HIP,
          !gpu>0, !limit_bytes, !unified_memory
  finding cuda-out-of-memory possible when library=NVENC
    title {library|CUDA} ran out of [[if library=Paddle:GPU ]][[if library=Faiss:GPU ]][[if
          library=NCCL:GPU ]]memory[[: the program asked for {requested_bytes}]]
    cause The GPU's memory was full, or the GPU runs as many encoding sessions as its driver allows. The
          driver reports both with the same error.
  finding cuda-out-of-memory possible when library=MatX
    cause MatX has one name for each failed allocation. The GPU's memory was full, or an earlier call on the
          GPU had failed, which the allocation is the first to report.
  finding cuda-out-of-memory when used_bytes, free_bytes
    cause {used_bytes} of the GPU's memory were in use, by this program and others; {free_bytes} were free.
  finding cuda-out-of-memory possible when allocated_bytes
    cause The program itself held {allocated_bytes}. Other processes held the rest, or the rest was too small.
  finding cuda-out-of-memory possible when requested_bytes
    cause The message does not say which process held the memory.
  finding cuda-out-of-memory possible
    cause The message says neither how much was requested nor which process held the memory.

# cuDNN found no way to run a convolution. Most often the GPU had no memory for a workspace, which the
# message does not say.
rule cudnn-engine
  line Unable to find a valid cuDNN algorithm to run convolution -> told_by=PyTorch; subject=PyTorch
  or GET was unable to find an engine to execute this computation
  or FIND was unable to find an engine to execute this computation
    none ^- || ""GET" || you see
  line Failed to get convolution algorithm. This is probably because cuDNN failed to -> told_by=TensorFlow;
        subject=TensorFlow
    none ^- || ""Failed" || you see
  finding cudnn-no-engine possible
    title cuDNN could not run a convolution for {told_by}: most often the GPU is full
    cause Most often the GPU has no memory left for a workspace. Other causes: cuDNN's libraries do not match
          each other or the GPU, or the GPU does not support the data type (bfloat16 needs Ampere or later).
    cure allocate memory on demand => TF_FORCE_GPU_ALLOW_GROWTH=true :: when told_by=TensorFlow
    cure @see-holders-now
    cure @smaller-batch :: when told_by=PyTorch
    cure disable the algorithm search, which tries algorithms with large workspaces =>
          torch.backends.cudnn.benchmark = False :: when told_by=PyTorch
    cure if GPU memory is free: check whether this PyTorch supports the GPU, and which cuDNN it has => python3
          -c "import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list(),
          torch.backends.cudnn.version())" :: when told_by=PyTorch

# NvMap allocates the Jetson's GPU memory. In "NvMapMemAllocInternalTagged: 1075072515 error 12" the first
# number is 0x40144E03, the ioctl NVMAP_IOC_ALLOC, and no size. 12 is ENOMEM.
# "NvMapMemHandleAlloc: error 0" follows it, without a reason; at times it stands alone.
rule nvmap: waits_for_failure
  line NvMapMemHandleAlloc: error 0 -> part=handle
  line NvMapMem…error {errno:int>0} -> figures=AllocInternalTagged: {ioctl_code:int} || part=internal
  finding nvmap-allocation-failed warning possible
    title NvMap (the Jetson's GPU memory) refused an allocation[[, error {errno}]][[if errno=12: (no memory)]]
    cause NvMap uses free pages only and does not wait for the kernel to reclaim the page cache. So it can
          fail while MemAvailable is large. A single line may be harmless: the caller may retry. The message
          does not contain the size.
    cure drop the page cache before models are loaded => sync; echo 1 | sudo tee /proc/sys/vm/drop_caches
    cure @keep-pages-free @compact-memory
    cure watch MemFree and the largest free block while it happens => headroom watch --output watch.jsonl

# What libnvrm_mem prints when it cannot open the device; later lines of the same failure name no reason.
cures jetson-groups
  cure add the user to the group, then log in again => sudo usermod -aG video,render $USER
  cure pass the devices and the group to the container => docker run --runtime nvidia --group-add video …
rule nvmap-permission: is_not_of_memory
  line NvRmMemInitNvmap && ermission denied -> part=open; subject=permission
  line NvRmMemInitNvmap && No such file -> part=open; subject=missing
  line Memory Manager Not supported -> part=manager; is_vague
  line NvRmMemInit failed NvRmMemConstructor -> part=constructor; is_vague
  line NvRmMemInitNvmap failed || NvRmMemInit failed -> part=init; is_vague
  line tegrastats: && ermission denied -> subject=permission; part=tegrastats
    none "sh: " || "sudo: "
  finding nvmap-permission certain when subject=permission
    title The user has no access to the GPU's memory (/dev/nvmap: permission denied)
    cause Memory did not run out. The user is not in the group that owns the device (video), or the container
          lacks the device or the group.
    cure see the device's group, and the user's groups => ls -l /dev/nvmap; id
    cure @jetson-groups
  finding nvmap-permission when subject=missing
    title The GPU's memory manager is missing (no /dev/nvmap)
    cause Memory did not run out. The container lacks the device, or the kernel has not loaded NVIDIA's
          modules, as after the installation of another kernel.
    cure pass the devices to the container => docker run --runtime nvidia …
    cure outside of a container, check whether the modules are loaded => ls -l /dev/nvmap; lsmod | grep -i nv
  finding nvmap-permission possible
    title A program could not reach the GPU's memory manager (NvRmMemInit failed)
    cause Memory did not run out. The user may not open /dev/nvmap, or the device is missing.
    cure see the device's group, and the user's groups => ls -l /dev/nvmap; id
    cure @jetson-groups

# The Jetson's decoders, encoders and converters could not open their devices. "Cannot allocate memory" is
# libnvbuf's word for it.
rule nvbuf-session: is_not_of_memory
  line Can't initialize nvrm channel || Couldn't create ddkvic Session -> event=session
  or Could not create Default NvBufferSession
  finding jetson-video-not-reached severe
    title A program could not open the Jetson's video engines; memory did not run out
    cause "Cannot allocate memory" is no lack of memory here. The user is not in the group that owns the
          devices (video), the container lacks the devices, or NVIDIA's multimedia package is missing.
    cure see the devices' group, and the user's groups => ls -l /dev/nvhost-vic /dev/nvmap; id
    cure @jetson-groups
    cure install the multimedia package => sudo apt install nvidia-l4t-multimedia
          nvidia-l4t-jetson-multimedia-api

# CPU and GPU of these machines share the memory. CUDA's free memory is MemFree there, so that the page cache
# counts as used. Figures of the cache: free's table with units, /proc/meminfo in a log.
rule unified-memory: context_of=every
  anchors "Mem:   " || MemFree: || Cached:
  line NVIDIA GB10 || NVIDIA Thor || NVIDIA DGX Spark || NVIDIA Jetson || "Orin (nvgpu)" -> unified_memory=yes
  or "Orin, compute capability" || "Xavier, compute capability" || ": Orin (" || variant=jetpack || -tegra
  line RAM {:int}/{:int}MB (lfb -> unified_memory=yes
    figures "RAM {board_used_bytes:MiB}/{board_bytes:MiB}"
  line "Mem:  {:size}  {:size}  {ram_free_bytes:unit}  {:size}  {page_cache_bytes:unit}"
  line ^MemFree:  {ram_free_bytes} || ^Cached:  {page_cache_bytes}

# GXF: Isaac ROS and Holoscan. Its pools are allocated when a graph starts.
figures of-gxf
  entity '{entity}' || named {entity:word}
rule gxf
  line Failure in cudaMalloc && gxf/ -> part=cudaMalloc; memory=GPU
  line "Could not initialize entity" && : GXF_OUT_OF_MEMORY -> part=initialize; figures=@of-gxf
  line "Failed to activate entity" && : GXF_OUT_OF_MEMORY -> part=activate; figures=@of-gxf
  line Graph activation failed with error: GXF_OUT_OF_MEMORY -> part=graph
  line GxfGraphActivate Error: GXF_OUT_OF_MEMORY -> part=context
  line runGraphAsync Error: GXF_OUT_OF_MEMORY -> part=node
  finding gxf-out-of-memory
    title Isaac ROS or Holoscan (GXF) could not allocate the memory of [[the entity
          {entity}]][[if !entity:a graph]]
    cause An entity allocates its pools when the graph starts: number of blocks times block size. The [[if
          memory=GPU:GPU]][[if !memory:GPU or the host]] did not have as much.[[ It failed in the component
          "{component}".]]
    cure @see-holders-at-start
    cure use smaller images and networks: the pools are made for them => network_image_width:=480
          network_image_height:=288
    cure use fewer blocks in the pool => num_blocks
    cure @drop-page-cache
    cure @drop-page-cache-on-jetson :: when !unified_memory
rule gxf-context: context_of=gxf
  line entity_warden && Failed to initialize component {:int} ({component})

rule gxf-pool: is_not_of_memory
  line Requested {requested_bytes} bytes of memory in a pool with block size {block_bytes} -> subject=block
  line Too many chunks allocated, memory of size {requested_bytes} not available -> subject=number
  finding gxf-pool-too-small certain when subject=number
    title A memory pool of GXF has no free block left: the program asked for {requested_bytes}
    cause This is a setting, no lack of memory: all of the pool's blocks are in use.
    cure raise the number of blocks of the pool => num_blocks
    cure release messages earlier: each one in a queue keeps its block
  finding gxf-pool-too-small certain
    title A memory pool of GXF has blocks of {block_bytes:count} bytes, but the program asked for
          {requested_bytes:count} bytes
    cause This is a setting, no lack of memory: the pool's blocks are smaller than the data, for example
          because the image has other channels or another size.
    cure set the pool's block size to the size of the data => block_size={requested_bytes:count}
    cure or use an allocator without fixed blocks => UnboundedAllocator

rule vpi: told_better_by=cuda
  line VPI_ERROR_OUT_OF_MEMORY: -> none="case VPI_"
  finding vpi-out-of-memory possible
    title VPI could not allocate memory for an image, a payload or a stream
    cause The GPU's memory was full, or the program creates objects for each frame and does not destroy them.
          Older releases of a node may leak them.
    cure @see-holders
    cure create VPI objects once and reuse them; destroy what is made for a frame => vpiImageDestroy(image);
    cure update the node or package that prints it => sudo apt update; sudo apt upgrade
    cure @drop-page-cache
    cure @drop-page-cache-on-jetson :: when !unified_memory

rule nvgpu: from_outside
  line "NVRM: " && NV_ERR_NO_MEMORY || Failed to allocate NVKMS memory -> subject=desktop
  line nvgpu && DMA alloc FAILED
    figures " size={requested_bytes}" || PHYSICALLY_ADDRESSED => contiguous=yes
  line nvgpu && ailed to allocate {wanted}
  finding nvgpu-allocation-failed warning possible when subject=desktop
    title NVIDIA's kernel driver could not allocate memory
    cause The GPU's memory, or the host's memory that the driver pins, was full.
    cure see which processes hold GPU memory => headroom top
    cure check whether programs failed at the same time => journalctl -b | headroom doctor -
  finding nvgpu-allocation-failed warning
    title The GPU's kernel driver could not allocate [[{requested_bytes}]][[its {wanted}]][[if contiguous: of
          contiguous memory]]
    cause There was no free block of this size: physical memory is fragmented, or CMA is too small.
    cure @compact-memory
    cure load models soon after boot, before memory fragments
    cure reserve more contiguous memory at boot (extlinux.conf) => cma={requested_bytes:mib_above|SIZE, above
          the largest request}[[if requested_bytes:M]]

rule nvidia-smi: is_not_of_memory
  line version mismatch -> subject=mismatch
    any NVIDIA-SMI has failed because || "Failed to initialize NVML: "
  line NVIDIA-SMI has failed because || "Failed to initialize NVML: " -> subject=no driver
  line Unable to determine the device handle for GPU -> subject=lost GPU
  # Other programs say it of cameras and disks, with words around it.
  line ^No devices were found$ || ]: No devices were found$ -> subject=no GPU
  finding gpu-not-reached warning certain when subject=no GPU
    title nvidia-smi found no GPU
    cause Memory did not run out. The driver runs, but this system or container has no GPU to use.
    cure check whether the machine has a GPU => lspci | grep -i nvidia
    cure pass the GPU to the container => docker run --gpus all …
  finding gpu-not-reached warning certain when subject=lost GPU
    title nvidia-smi could not reach a GPU that the driver knows
    cause Memory did not run out. The GPU fell off the bus, or needs a reset.
    cure read the kernel's reason (Xid), then restart the machine => sudo dmesg | grep -i xid
  finding gpu-not-reached warning certain when subject=mismatch
    title nvidia-smi and the loaded driver have different versions
    cause Memory did not run out. The driver was updated, but the kernel still runs the old one.
    cure restart the machine, which loads the new driver => sudo reboot
  finding gpu-not-reached warning certain
    title nvidia-smi could not reach the driver
    cause Memory did not run out. The driver is not loaded, not installed, or not passed to the container.
    cure load the driver; if that fails, install it => sudo modprobe nvidia
    cure pass the GPU to the container => docker run --gpus all …

rule argus
  line Error InsufficientMemory: -> call=set_part_of_argus; any=Argus || "SCF: " || (Nv
  finding camera-out-of-memory
    title The Jetson's camera stack (Argus) could not allocate its buffers
    cause A camera stream allocates several full-size frames from NvMap. NvMap uses free pages only, not the
          page cache. The program may continue with a camera that delivers no more frames.
    cure @see-holders-at-start
    cure drop the page cache, and restart the camera service => sync; echo 1 | sudo tee
          /proc/sys/vm/drop_caches; sudo systemctl restart nvargus-daemon
    cure use a sensor mode with a smaller resolution => nvarguscamerasrc sensor-id=0 sensor-mode=MODE
    cure @keep-pages-free

# jetson.utils maps memory that CPU and GPU share.
rule jetson-utils
  line cudaAllocMapped && failed -> none=" 0 failed"
  finding mapped-memory-failed possible
    title jetson.utils could not allocate memory that CPU and GPU share (cudaAllocMapped)
    cause The program keeps too many frames, or the frames are larger than the model needs. Mapped memory is
          pinned, so the kernel cannot swap it.
    cure capture at the model's input size => --input-width=WIDTH --input-height=HEIGHT
    cure release frames as soon as they are used => del image
    cure @see-holders

# ggml lists the GPUs at its start: "CUDA0 : Orin (7619 MiB, 3875 MiB free)".
rule gpu-listed
  line CUDA…({total_bytes}, {free_bytes} free)
  finding gpu-memory-listed benign certain
    title A GPU of {total_bytes} was listed with {free_bytes} free
    cause A program listed its devices at its start. On a Jetson, "free" is the system's MemFree at that
          moment. The kernel could still reclaim the page cache for the CPU.

rule gstreamer
  line Failed to allocate cuda output buffer || Failed to allocate cuda input buffer -> told_by=DeepStream
  line NvBufSurfaceAllocate failed || NvBufSurfaceCreate failed || nvbufsurface: Failed to allocate buffer ->
        told_by=NvBufSurface
  line Failed to allocate required memory -> told_by=GStreamer; any=element || gst || Gst || GST
  finding gstreamer-allocation-failed possible
    title {told_by} could not allocate the buffers of a pipeline
    cause There is too little memory for frames of that size and number, or the driver cannot create such
          buffers. The message does not say which.
    cure @see-holders-at-start
    cure use fewer buffers in the decoder => nvv4l2decoder num-extra-surfaces=0
    cure use a smaller batch and smaller frames => nvstreammux batch-size=1 width=1280 height=720

rule opencv
  # The GPU modules' words in OpenCV 3 and 4, and in 2.
  line Gpu API call) out of memory || Gpu API call (out of memory) -> memory=GPU; subject=GPU
  line -4:Insufficient memory || (Insufficient memory) || OpenCV Error: Insufficient memory || in function
        'OutOfMemoryError'
    figures Failed to allocate {requested_bytes}
  finding opencv-out-of-memory when wrong_size
    title OpenCV could not allocate {requested}
    cause No machine has so much memory. A size was not set, or is wrong. More memory would not help.
    cure check that the image is not empty => if (image.empty()) …
    cure check that OpenCV's headers and library have the same version => pkg-config --modversion opencv4
  finding opencv-out-of-memory when memory=GPU
    title OpenCV's GPU module could not allocate GPU memory
    cause Each cv::cuda::GpuMat allocates its own memory, and the CUDA context needs some too. Other GPU
          programs, and on a Jetson the page cache, left too little.
    cure reuse matrices instead of allocating new ones => cv::cuda::setBufferPoolUsage(true);
          cv::cuda::setBufferPoolConfig(0, 64 << 20, 2);
    cure @see-holders @drop-page-cache-on-jetson
  finding opencv-out-of-memory
    title OpenCV could not allocate {requested|some memory}
    cause An image or a batch of images was larger than the free memory.
    cure decode at half the size => cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2) :: saves requested_bytes/4*3
    cure keep fewer frames at once => cap.set(cv2.CAP_PROP_BUFFERSIZE, 2)
)rules",
          {{"derive_server", derive_server}, {"set_part_of_argus", set_part_of_argus}}};
}

}  // namespace headroom::doctor
