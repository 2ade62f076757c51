// The memory that one model needs, for planning: footprints/NAME.json. Plain data.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "types/runtime_settings.h"

namespace headroom {

// GPU memory of the model: by the ledger, and by the driver for the whole process (context, modules) if NVML
// reports it.
struct FootprintGpu {
  std::string device, name;  // "cuda:0", "NVIDIA H200"
  Bytes load_peak, run_peak;
  bool is_integrated = false;  // its memory is host memory
  friend bool operator==(const FootprintGpu&, const FootprintGpu&) = default;
};

// Bytes beyond the bare runtime (resident after the runtime is loaded, before the model), without the decoded
// frames that the bench holds. The runtime is counted once per process, so it has its own field.
struct Footprint {
  std::string name, path, model_fingerprint, backend, backend_version, input, host;
  Bytes runtime;    // the bare runtime, once per process
  Bytes loaded;     // loaded − runtime
  Bytes load_peak;  // load_peak − runtime
  Bytes run_mean;   // run_mean − runtime − frames
  Bytes run_peak;   // run_peak − runtime − frames
  Bytes frames;     // decoded frames that the bench held
  // File pages while the model ran, included in the figures above and in the runtime's. Mostly code of the
  // runtime, which processes with the same runtime share.
  std::optional<Bytes> file_backed;
  // Peak that the kernel charged to the worker's control group. Includes page tables; includes file pages
  // only if they were not in the page cache before.
  std::optional<Bytes> charged_peak;
  std::optional<FootprintGpu> gpu;  // the first GPU if there are several; absent on the CPU
  RuntimeSettings settings;
  std::string measured_at;
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

}  // namespace headroom
