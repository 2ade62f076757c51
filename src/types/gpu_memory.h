// GPU memory of a process, by phase. Plain data; a figure that was not measured is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"

namespace headroom {

struct GpuMemory {
  std::string device;      // "cuda:0"
  std::string name, uuid;  // "NVIDIA H200", "GPU-…"
  std::optional<Bytes> total;
  std::optional<bool> is_integrated;  // its memory is host memory: never add these figures to resident bytes

  // By the ledger of the preload library: requested bytes, plus what pools and graphs keep. Peaks are exact;
  // `run_peak` covers warm-up and run.
  std::optional<Bytes> runtime, loaded, load_peak, running, run_peak, residual;
  std::optional<Bytes> pinned_host;  // host memory, at the end of the run

  // By the driver (NVML) at the end of the same phases; includes the context and the modules.
  std::optional<Bytes> process_runtime, process_loaded, process_running, process_residual;

  // The limit on the ledger's figures; absent without a limit.
  std::optional<Bytes> limit;
  std::optional<bool> within_limit;
  std::int64_t refused = 0;  // number of refused requests
  std::optional<Bytes> refused_bytes;
  friend bool operator==(const GpuMemory&, const GpuMemory&) = default;
};

// All models at once on one device, from the account that they share.
struct JointGpuMemory {
  std::string device;
  std::optional<Bytes> joint_peak, sum_of_peaks;  // the sum is over the models alone
  std::optional<Bytes> limit;
  bool is_over_limit() const { return limit && joint_peak && *joint_peak > *limit; }
  friend bool operator==(const JointGpuMemory&, const JointGpuMemory&) = default;
};

// Where the nodes of a model's graph ran.
struct NodePlacement {
  std::int64_t on_device = 0, on_cpu = 0;
  std::string on_cpu_kinds;  // "Shape x3, Gather"
  friend bool operator==(const NodePlacement&, const NodePlacement&) = default;
};

}  // namespace headroom
