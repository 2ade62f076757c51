// A sample of one GPU, from its driver. A figure that the driver did not report is absent, never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace headroom {

// A process that uses memory of a GPU. The driver's figures include contexts and modules.
struct GpuProcess {
  std::int64_t pid = 0;       // in the driver's PID namespace: may not exist inside a container
  std::optional<Bytes> used;  // absent if the driver does not report it (Windows' driver model, some Jetsons)
  std::optional<std::int64_t> gpu_instance, compute_instance;  // the process's MIG instance
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

// A MIG instance: a part of a GPU that acts as a separate device.
struct MigInstance {
  std::int64_t index = 0;  // among the instances of its GPU
  std::string name;        // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::string uuid;        // "MIG-…", as in CUDA_VISIBLE_DEVICES
  std::optional<std::int64_t> gpu_instance, compute_instance;
  std::optional<Bytes> memory_total, memory_used, memory_free, memory_reserved;
  friend bool operator==(const MigInstance&, const MigInstance&) = default;
};

// A whole GPU. NVML orders devices by PCI bus. CUDA orders those that CUDA_VISIBLE_DEVICES leaves, fastest
// first. Compare `uuid` and `pci_bus_id` to match the two.
struct GpuSample {
  std::optional<std::int64_t> index;
  std::string name;        // "NVIDIA H200"
  std::string uuid;        // "GPU-…"
  std::string pci_bus_id;  // "00000000:01:00.0": domain, bus, device, function
  bool lost = false;       // fell off the bus or needs a reset: no figures are available
  std::optional<Bytes> memory_total;
  // Without reserved memory, so that total = used + reserved + free. If `memory_reserved` is absent (drivers
  // before R510), this includes the reserved memory.
  std::optional<Bytes> memory_used;
  std::optional<Bytes> memory_free, memory_reserved;
  // Percent of the driver's last sampling period (1/6 to 1 s) with activity: a kernel runs, device memory is
  // accessed, the video encoder is busy, the video decoder is busy.
  std::optional<double> gpu_percent, memory_percent, encoder_percent, decoder_percent;
  std::optional<double> graphics_clock_hz, sm_clock_hz, memory_clock_hz;
  std::optional<double> power_watts, power_limit_watts;  // of the whole board; the enforced limit
  std::optional<double> temperature_celsius;
  std::optional<bool> throttled;              // clocks are reduced because of heat, power or another GPU
  std::vector<std::string> throttle_reasons;  // readable reasons: "software power cap"
  std::vector<std::string> clock_limits;      // other reasons for lower clocks: "idle"
  std::optional<bool> mig_enabled;
  std::vector<MigInstance> mig_instances;
  std::optional<std::vector<GpuProcess>> processes;  // absent: the driver does not report processes
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// Memory that programs can still allocate: the driver's figure, or else total − used − reserved. The result
// is negative if the driver's figures are inconsistent and more is used than exists.
inline std::optional<Bytes> free_memory(const GpuSample& gpu) {
  if (gpu.memory_free) return gpu.memory_free;
  if (!gpu.memory_total || !gpu.memory_used) return std::nullopt;
  return *gpu.memory_total - *gpu.memory_used - gpu.memory_reserved.value_or(Bytes{});
}

}  // namespace headroom
