// NVIDIA's drivers and tools: NvMap and nvgpu of a Jetson, the desktop driver, nvidia-smi, the camera stack.
// GStreamer, DeepStream, jetson.utils and OpenCV, which run on them.
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// Argus is the Jetson's camera stack, and SCF is below it. Each function that a failure passes through
// reports it: "(propagating from src/…, function X(), line N)".
void set_part_of_argus(std::string_view line, LogMessage& message) {
  message.part = line.substr(line.find("InsufficientMemory:"));
}

constexpr std::string_view kNvidiaText = R"rules(
# NvMap allocates the Jetson's GPU memory. In "NvMapMemAllocInternalTagged: 1075072515 error 12" the first
# number is 0x40144E03, the ioctl NVMAP_IOC_ALLOC, and no size. 12 is ENOMEM.
rule nvmap
  flags waits_for_failure
  line NvMapMem…error {errno:int>0}
    figures AllocInternalTagged: {ioctl_code:int}
  finding nvmap-allocation-failed warning possible
    title NvMap (the Jetson's GPU memory) refused an allocation, error {errno}[[if errno=12: (no memory)]]
    cause NvMap uses free pages only and does not wait for the kernel to reclaim the page cache. So it can
          fail while MemAvailable is large. A single line may be harmless: the caller may retry. The message
          does not contain the size.
    cure drop the page cache before models are loaded => sync; echo 1 | sudo tee /proc/sys/vm/drop_caches
    cure @keep-pages-free
    cure @compact-memory
    cure watch MemFree and the largest free block while it happens => headroom watch --output watch.jsonl

rule nvmap-permission
  flags is_not_of_memory
  line NvRmMemInitNvmap && ermission denied
  finding nvmap-permission certain
    title The user has no access to the GPU's memory (/dev/nvmap: permission denied)
    cause Memory did not run out. The user is not in the group that owns the device, or the container lacks
          the device.
    cure add the user to the group, then log in again => sudo usermod -aG video,render $USER
    cure pass the devices to the container => docker run --runtime nvidia …

rule nvgpu
  flags from_outside
  line "NVRM: " && NV_ERR_NO_MEMORY -> subject=desktop
  line Failed to allocate NVKMS memory -> subject=desktop
  line nvgpu && DMA alloc FAILED && PHYSICALLY_ADDRESSED
    figures " size={requested_bytes}" || contiguous=yes
  line nvgpu && DMA alloc FAILED
    figures " size={requested_bytes}"
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

rule nvidia-smi
  flags is_not_of_memory
  line version mismatch -> subject=mismatch
    any NVIDIA-SMI has failed because || "Failed to initialize NVML: "
  line NVIDIA-SMI has failed because -> subject=no driver
  line "Failed to initialize NVML: " -> subject=no driver
  line Unable to determine the device handle for GPU -> subject=lost GPU
  # Other programs say it of cameras and disks, with words around it.
  line ^No devices were found$ -> subject=no GPU
  line ]: No devices were found$ -> subject=no GPU
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
  line Error InsufficientMemory: -> add=set_part_of_argus
    any Argus || "SCF: " || (Nv
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
  line cudaAllocMapped && failed
    none " 0 failed"
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
  line Failed to allocate cuda output buffer -> told_by=DeepStream
  line Failed to allocate cuda input buffer -> told_by=DeepStream
  line NvBufSurfaceAllocate failed -> told_by=NvBufSurface
  line NvBufSurfaceCreate failed -> told_by=NvBufSurface
  line nvbufsurface: Failed to allocate buffer -> told_by=NvBufSurface
  line Failed to allocate required memory -> told_by=GStreamer
    any element || gst || Gst || GST
  finding gstreamer-allocation-failed possible
    title {told_by} could not allocate the buffers of a pipeline
    cause There is too little memory for frames of that size and number, or the driver cannot create such
          buffers. The message does not say which.
    cure @see-holders-at-start
    cure use fewer buffers in the decoder => nvv4l2decoder num-extra-surfaces=0
    cure use a smaller batch and smaller frames => nvstreammux batch-size=1 width=1280 height=720

rule opencv
  # The GPU modules' words in OpenCV 3 and 4, and in 2.
  line Gpu API call) out of memory -> memory=GPU; subject=GPU
  line Gpu API call (out of memory) -> memory=GPU; subject=GPU
  line -4:Insufficient memory
    figures Failed to allocate {requested_bytes}
  line (Insufficient memory)
    figures Failed to allocate {requested_bytes}
  line OpenCV Error: Insufficient memory
    figures Failed to allocate {requested_bytes}
  line in function 'OutOfMemoryError'
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
    cure @see-holders
    cure @drop-page-cache-on-jetson
  finding opencv-out-of-memory
    title OpenCV could not allocate {requested|some memory}
    cause An image or a batch of images was larger than the free memory.
    cure decode at half the size => cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2) :: saves requested_bytes/4*3
    cure keep fewer frames at once => cap.set(cv2.CAP_PROP_BUFFERSIZE, 2)
)rules";

}  // namespace

RuleFamily nvidia_rules() { return {kNvidiaText, {{"set_part_of_argus", set_part_of_argus}}}; }

}  // namespace headroom::doctor
