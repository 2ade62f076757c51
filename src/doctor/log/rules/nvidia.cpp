// NVIDIA's drivers and tools: NvMap and nvgpu of a Jetson, the desktop driver, nvidia-smi, the camera stack.
#include "doctor/log/common_cures.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {

// NvMap allocates the Jetson's GPU memory. In "NvMapMemAllocInternalTagged: 1075072515 error 12" the first
// number is 0x40144E03, the ioctl NVMAP_IOC_ALLOC, and no size. 12 is ENOMEM.
LogRule nvmap_rule() {
  return {
      .name = "nvmap",
      .waits_for_failure = true,
      .wordings = {{.all = {"NvMapMem…error {errno:int>0}"},
                    .figures = {"AllocInternalTagged: {ioctl_code:int}"}}},
      .explanations =
          {{.id = "nvmap-allocation-failed",
            .severity = Severity::warning,
            .confidence = Confidence::possible,
            .title = "NvMap (the Jetson's GPU memory) refused an allocation, error {errno}[[{no_memory}]]",
            .cause =
                "NvMap uses free pages only and does not wait for the kernel to reclaim the page cache. So "
                "it can fail while MemAvailable is large. A single line may be harmless: the caller may "
                "retry. The message does not contain the size.",
            .cures = {{"drop the page cache before models are loaded", kDropPageCache},
                      kKeepPagesFree,
                      kCompactMemory,
                      {"watch MemFree and the largest free block while it happens",
                       "headroom watch --output watch.jsonl"}}}},
      .derive = [](LogMessage& message) {
        constexpr std::int64_t kNoMemory = 12;
        if (message.number("errno") == kNoMemory) message.add("no_memory", " (no memory)");
      }};
}

LogRule nvmap_permission_rule() {
  return {
      .name = "nvmap-permission",
      .is_of_memory = false,
      .wordings = {{.all = {"NvRmMemInitNvmap", "ermission denied"}}},
      .explanations = {
          {.id = "nvmap-permission",
           .confidence = Confidence::certain,
           .title = "The user has no access to the GPU's memory (/dev/nvmap: permission denied)",
           .cause = "Memory did not run out. The user is not in the group that owns the device, or the "
                    "container lacks the device.",
           .cures = {{"add the user to the group, then log in again", "sudo usermod -aG video,render $USER"},
                     {"pass the devices to the container", "docker run --runtime nvidia …"}}}}};
}

LogRule nvgpu_rule() {
  return {
      .name = "nvgpu",
      .from_outside = true,
      .wordings = {{.all = {"NVRM: ", "NV_ERR_NO_MEMORY"}, .subject = "desktop"},
                   {.all = {"Failed to allocate NVKMS memory"}, .subject = "desktop"},
                   {.all = {"nvgpu", "DMA alloc FAILED", "PHYSICALLY_ADDRESSED"},
                    .figures = {" size={requested_bytes}", "contiguous=yes"}},
                   {.all = {"nvgpu", "DMA alloc FAILED"}, .figures = {" size={requested_bytes}"}},
                   {.all = {"nvgpu", "ailed to allocate {wanted}"}}},
      .explanations =
          {{.when = "subject=desktop",
            .id = "nvgpu-allocation-failed",
            .severity = Severity::warning,
            .confidence = Confidence::possible,
            .title = "NVIDIA's kernel driver could not allocate memory",
            .cause = "The GPU's memory, or the host's memory that the driver pins, was full.",
            .cures = {{"see which processes hold GPU memory", "headroom top"},
                      {"check whether programs failed at the same time",
                       "journalctl -b | headroom doctor -"}}},
           {.id = "nvgpu-allocation-failed",
            .severity = Severity::warning,
            .title = "The GPU's kernel driver could not allocate "
                     "[[{requested_bytes}]][[its {wanted}]][[{of_contiguous_memory}]]",
            .cause =
                "There was no free block of this size: physical memory is fragmented, or CMA is too small.",
            .cures = {kCompactMemory,
                      {"load models soon after boot, before memory fragments"},
                      {"reserve more contiguous memory at boot (extlinux.conf)",
                       "cma={requested_bytes:mib_above|SIZE, above the largest request}[[{unit_of_cma}]]"}}}},
      .derive = [](LogMessage& message) {
        if (message.bytes("requested_bytes")) message.add("unit_of_cma", "M");
        if (!message.text("contiguous").empty()) message.add("of_contiguous_memory", " of contiguous memory");
      }};
}

// What scripts print at their start in place of figures.
LogRule nvidia_smi_rule() {
  constexpr CureRow kPassGpu{"pass the GPU to the container", "docker run --gpus all …"};
  const auto explained = [](std::string_view when, std::string_view title, std::string_view cause,
                            std::vector<CureRow> cures) {
    return Explanation{when,  "gpu-not-reached", Severity::warning, Confidence::certain, title,
                       cause, std::move(cures)};
  };
  return {
      .name = "nvidia-smi",
      .is_of_memory = false,
      .wordings = {{.all = {"version mismatch"},
                    .any = {"NVIDIA-SMI has failed because", "Failed to initialize NVML: "},
                    .subject = "mismatch"},
                   {.all = {"NVIDIA-SMI has failed because"}, .subject = "no driver"},
                   {.all = {"Failed to initialize NVML: "}, .subject = "no driver"},
                   {.all = {"Unable to determine the device handle for GPU"}, .subject = "lost GPU"},
                   // Other programs say it of cameras and disks, with words around it.
                   {.all = {"^No devices were found$"}, .subject = "no GPU"},
                   {.all = {"]: No devices were found$"}, .subject = "no GPU"}},
      .explanations = {
          explained(
              "subject=no GPU", "nvidia-smi found no GPU",
              "Memory did not run out. The driver runs, but this system or container has no GPU to use.",
              {{"check whether the machine has a GPU", "lspci | grep -i nvidia"}, kPassGpu}),
          explained(
              "subject=lost GPU", "nvidia-smi could not reach a GPU that the driver knows",
              "Memory did not run out. The GPU fell off the bus, or needs a reset.",
              {{"read the kernel's reason (Xid), then restart the machine", "sudo dmesg | grep -i xid"}}),
          explained("subject=mismatch", "nvidia-smi and the loaded driver have different versions",
                    "Memory did not run out. The driver was updated, but the kernel still runs the old one.",
                    {{"restart the machine, which loads the new driver", "sudo reboot"}}),
          explained("", "nvidia-smi could not reach the driver",
                    "Memory did not run out. The driver is not loaded, not installed, or not passed to the "
                    "container.",
                    {{"load the driver; if that fails, install it", "sudo modprobe nvidia"}, kPassGpu})}};
}

// Argus is the Jetson's camera stack, and SCF is below it. Each function that a failure passes through
// reports it: "(propagating from src/…, function X(), line N)".
LogRule argus_rule() {
  return {
      .name = "argus",
      .wordings = {{.all = {"Error InsufficientMemory:"},
                    .any = {"Argus", "SCF: ", "(Nv"},
                    .add =
                        [](std::string_view line, LogMessage& message) {
                          message.part = line.substr(line.find("InsufficientMemory:"));
                        }}},
      .explanations = {
          {.id = "camera-out-of-memory",
           .title = "The Jetson's camera stack (Argus) could not allocate its buffers",
           .cause =
               "A camera stream allocates several full-size frames from NvMap. NvMap uses free pages only, "
               "not the page cache. The program may continue with a camera that delivers no more frames.",
           .cures = {
               kSeeHoldersAtStart,
               {"drop the page cache, and restart the camera service",
                "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches; sudo systemctl restart nvargus-daemon"},
               {"use a sensor mode with a smaller resolution",
                "nvarguscamerasrc sensor-id=0 sensor-mode=MODE"},
               kKeepPagesFree}}}};
}

// jetson.utils maps memory that CPU and GPU share.
LogRule jetson_utils_rule() {
  return {.name = "jetson-utils",
          .wordings = {{.all = {"cudaAllocMapped", "failed"}, .none = {" 0 failed"}}},
          .explanations = {
              {.id = "mapped-memory-failed",
               .confidence = Confidence::possible,
               .title = "jetson.utils could not allocate memory that CPU and GPU share (cudaAllocMapped)",
               .cause =
                   "The program keeps too many frames, or the frames are larger than the model needs. Mapped "
                   "memory is pinned, so the kernel cannot swap it.",
               .cures = {{"capture at the model's input size", "--input-width=WIDTH --input-height=HEIGHT"},
                         {"release frames as soon as they are used", "del image"},
                         kSeeHolders}}}};
}

// ggml lists the GPUs at its start: "CUDA0 : Orin (7619 MiB, 3875 MiB free)".
LogRule gpu_listed_rule() {
  return {
      .name = "gpu-listed",
      .wordings = {{.all = {"CUDA…({total_bytes}, {free_bytes} free)"}}},
      .explanations = {
          {.id = "gpu-memory-listed",
           .severity = Severity::benign,
           .confidence = Confidence::certain,
           .title = "A GPU of {total_bytes} was listed with {free_bytes} free",
           .cause =
               "A program listed its devices at its start. On a Jetson, \"free\" is the system's MemFree at "
               "that moment. The kernel could still reclaim the page cache for the CPU."}}};
}

}  // namespace headroom::doctor
