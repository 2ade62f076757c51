// One GPU at a time, as its driver tells it. A figure that the driver did not give is absent, never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace headroom {

// A process that holds memory of a GPU, by the driver's account: contexts and modules are in it.
struct GpuProcess {
  std::int64_t pid = 0;       // in the driver's PID namespace: from within a container it may name nobody
  std::optional<Bytes> used;  // absent where the driver does not say (Windows' driver model, some Jetsons)
  std::optional<std::int64_t> gpu_instance, compute_instance;  // the MIG instance that it runs on
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

// A part of a GPU that MIG made a device of its own.
struct MigInstance {
  std::int64_t index = 0;  // among the instances of its GPU
  std::string name;        // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::string uuid;        // "MIG-…", as CUDA_VISIBLE_DEVICES takes it
  std::optional<std::int64_t> gpu_instance, compute_instance;
  std::optional<Bytes> memory_total, memory_used, memory_free, memory_reserved;
  friend bool operator==(const MigInstance&, const MigInstance&) = default;
};

// A whole GPU. NVML counts devices in the order of the PCI bus; CUDA counts those that CUDA_VISIBLE_DEVICES
// leaves, fastest first. `uuid` and `pci_bus_id` are what tells that two numbers mean the same device.
struct GpuSample {
  std::optional<std::int64_t> index;
  std::string name;        // "NVIDIA H200"
  std::string uuid;        // "GPU-…"
  std::string pci_bus_id;  // "00000000:01:00.0": domain, bus, device, function
  bool lost = false;       // it fell off the bus or needs a reset: no figure can be had
  std::optional<Bytes> memory_total;
  // Without the reserved memory, so that total = used + reserved + free. Where `memory_reserved` is absent
  // (drivers before R510) the reserved memory is in it.
  std::optional<Bytes> memory_used;
  std::optional<Bytes> memory_free, memory_reserved;
  // Share of the driver's last sampling period (1/6 to 1 s): with a kernel running, with device memory read
  // or written, of the video encoders and decoders.
  std::optional<double> gpu_percent, memory_percent, encoder_percent, decoder_percent;
  std::optional<double> graphics_clock_hz, sm_clock_hz, memory_clock_hz;
  std::optional<double> power_watts, power_limit_watts;  // of the whole board; the limit that is enforced
  std::optional<double> temperature_celsius;
  std::optional<bool> throttled;              // the clocks are held down by heat, power or another GPU
  std::vector<std::string> throttle_reasons;  // by what, in words: "software power cap"
  std::vector<std::string> clock_limits;      // what else keeps the clocks from being higher: "idle"
  std::optional<bool> mig_enabled;
  std::vector<MigInstance> mig_instances;
  std::optional<std::vector<GpuProcess>> processes;  // absent: the driver does not say
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// What programs can still take: as the driver tells it, else what is neither used nor reserved. It tells no
// more than its figures where they do not fit each other: below zero where more is used than there is.
inline std::optional<Bytes> free_memory(const GpuSample& gpu) {
  if (gpu.memory_free) return gpu.memory_free;
  if (!gpu.memory_total || !gpu.memory_used) return std::nullopt;
  return *gpu.memory_total - *gpu.memory_used - gpu.memory_reserved.value_or(Bytes{});
}

}  // namespace headroom
