// What one model takes for itself, for planning: footprints/NAME.json. Plain data.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "model/runtime_settings.h"

namespace headroom {

// What it took of a GPU: by the ledger, and by the driver for the process (context, modules) where NVML
// tells.
struct FootprintGpu {
  std::string device, name;  // "cuda:0", "NVIDIA H200"
  Bytes load_peak, run_peak;
  bool is_integrated = false;  // its memory is the machine's
  friend bool operator==(const FootprintGpu&, const FootprintGpu&) = default;
};

// Shares over the bare runtime (resident bytes after the runtime is loaded, before the model), without the
// decoded frames that the bench holds. The runtime itself is counted once per process, so it stands apart.
struct Footprint {
  std::string name, path, model_fingerprint, backend, backend_version, input, host;
  Bytes runtime;    // the bare runtime, once per process
  Bytes loaded;     // loaded − runtime
  Bytes load_peak;  // load_peak − runtime
  Bytes run_mean;   // run_mean − runtime − frames
  Bytes run_peak;   // run_peak − runtime − frames
  Bytes frames;     // decoded frames that the bench held
  // Pages of files while it ran, inside the figures above with the runtime's: code of the runtime, mostly,
  // which processes with the same runtime have in common.
  std::optional<Bytes> file_backed;
  // The kernel's account of the worker's control group at its highest: page tables are in it, and of files
  // only what was not in the page cache before.
  std::optional<Bytes> charged_peak;
  std::optional<FootprintGpu> gpu;  // of several the first; absent on the CPU
  RuntimeSettings settings;
  std::string measured_at;
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

}  // namespace headroom
