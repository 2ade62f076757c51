// What nvidia-smi says in place of figures, as scripts print it at their start; no want of memory.
#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kNoGpu = "no GPU", kNoDriver = "no driver", kLostGpu = "lost GPU",
                           kMismatch = "mismatch";

// The whole line, or all behind a log's "app[12]: ": others say it of cameras and disks, with words around.
bool finds_no_gpu(std::string_view line) {
  constexpr std::string_view kWords = "No devices were found";
  line = trim(line);
  if (!line.ends_with(kWords)) return false;
  line.remove_suffix(kWords.size());
  return line.empty() || line.ends_with("]: ");
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "NVIDIA-SMI has failed because") || has(line, "Failed to initialize NVML: "))
    message.subject = has(line, "version mismatch") ? kMismatch : kNoDriver;
  else if (has(line, "Unable to determine the device handle for GPU"))
    message.subject = kLostGpu;
  else if (finds_no_gpu(line))
    message.subject = kNoGpu;
  else
    return std::nullopt;
  return message;
}

Finding no_gpu(Finding finding) {
  finding.title = "nvidia-smi found no GPU";
  finding.cause = "Memory did not run out. The driver runs, but this system or container has no GPU to use.";
  finding.cures = {{"check whether the machine has a GPU", "lspci | grep -i nvidia", {}},
                   {"pass the GPU to the container", "docker run --gpus all …", {}}};
  return finding;
}

Finding lost_gpu(Finding finding) {
  finding.title = "nvidia-smi could not reach a GPU that the driver knows";
  finding.cause = "Memory did not run out. The GPU fell off the bus, or needs a reset.";
  finding.cures = {
      {"read the kernel's reason (Xid), then restart the machine", "sudo dmesg | grep -i xid", {}}};
  return finding;
}

Finding mismatch(Finding finding) {
  finding.title = "nvidia-smi and the loaded driver have different versions";
  finding.cause = "Memory did not run out. The driver was updated, but the kernel still runs the old one.";
  finding.cures = {{"restart the machine, which loads the new driver", "sudo reboot", {}}};
  return finding;
}

Finding no_driver(Finding finding) {
  finding.title = "nvidia-smi could not reach the driver";
  finding.cause =
      "Memory did not run out. The driver is not loaded, not installed, or not passed to the container.";
  finding.cures = {{"load the driver; if that fails, install it", "sudo modprobe nvidia", {}},
                   {"pass the GPU to the container", "docker run --gpus all …", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "gpu-not-reached";
  finding.severity = Severity::warning;  // what runs on the CPU goes on without
  finding.confidence = Confidence::certain;
  if (message.subject == kNoGpu) return no_gpu(std::move(finding));
  if (message.subject == kLostGpu) return lost_gpu(std::move(finding));
  if (message.subject == kMismatch) return mismatch(std::move(finding));
  return no_driver(std::move(finding));
}

}  // namespace

LogRule nvidia_smi_rule() {
  LogRule rule{
      "nvidia-smi",
      {"NVIDIA-SMI has failed", "initialize NVML: ", "determine the device handle", "No devices were found"},
      read,
      explain};
  rule.is_of_memory = false;
  return rule;
}

}  // namespace headroom::doctor
