// The kernel's GPU driver on a Jetson could not get memory for itself.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char* kDesktop = "nvidia";

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // The driver of other GPUs: "NVRM: … Assertion failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)
  // returned from …", "[drm:nv_drm_gem_alloc_nvkms_memory_ioctl [nvidia_drm]] *ERROR* … Failed to allocate
  // NVKMS memory".
  if ((has(line, "NVRM: ") && has(line, "NV_ERR_NO_MEMORY")) ||
      has(line, "Failed to allocate NVKMS memory")) {
    message.subject = kDesktop;
    return message;
  }
  if (!has(line, "nvgpu")) return std::nullopt;
  if (has(line, "DMA alloc FAILED")) {
    message.add("requested_bytes", size_after(line, " size="));
    if (has(line, "PHYSICALLY_ADDRESSED")) message.add("contiguous", "yes");
    return message;
  }
  if (has(line, "Failed to allocate ") || has(line, "failed to allocate ")) {
    const auto what = text_after(line, "ailed to allocate ");
    message.add("wanted", what->substr(0, 40));
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  Finding finding;
  finding.id = "nvgpu-allocation-failed";
  finding.severity = Severity::warning;
  if (message.subject == kDesktop) {
    finding.title = "NVIDIA's kernel driver could not allocate memory";
    finding.cause = "The GPU's memory, or the host's memory that the driver pins, was full.";
    finding.confidence = Confidence::possible;
    finding.cures = {
        {"see which processes hold GPU memory", "headroom top", {}},
        {"check whether programs failed at the same time", "journalctl -b | headroom doctor -", {}}};
    return finding;
  }
  finding.title =
      requested ? fmt::format("The GPU's kernel driver could not allocate {}{}", format_bytes(*requested),
                              message.text("contiguous").empty() ? "" : " of contiguous memory")
                : fmt::format("The GPU's kernel driver could not allocate its {}", message.text("wanted"));
  finding.cause = "There was no free block of this size: physical memory is fragmented, or CMA is too small.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"compact free memory into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory", {}},
      {"load models soon after boot, before memory fragments", "", {}},
      {"reserve more contiguous memory at boot (extlinux.conf)",
       requested && !is_impossible(*requested) ? fmt::format("cma={}M", mebibytes_above(*requested))
                                               : "cma=SIZE, above the largest request",
       {}}};
  return finding;
}

}  // namespace

LogRule nvgpu_rule() {
  LogRule rule{"nvgpu", {"nvgpu: ", "nvgpu_", "NV_ERR_NO_MEMORY", "NVKMS memory"}, read, explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
