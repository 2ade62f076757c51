// A worker's GPU memory, read by the worker itself. It has two sources: the ledger of the preload library,
// and the driver's figure for the process. Each source is optional.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ledger/device_query.h"
#include "sources/nvml_own_memory.h"

namespace headroom::bench {

class DeviceWatch {
 public:
  // For the devices of a job (CUDA ordinals). Opens NVML before the model allocates anything.
  explicit DeviceWatch(std::vector<unsigned> ordinals);

  // Reads the memory of each device, as a list for a phase event, and resets the peaks for the next phase.
  nlohmann::ordered_json read_and_reset();
  // "cuda:0 refused 32.0 MiB at its limit of 4.0 GiB (4.0 GiB in use)"; empty if nothing was refused since
  // the last read_and_reset().
  std::string describe_new_refusals() const;

 private:
  std::vector<unsigned> ordinals_;
  std::vector<std::uint64_t> refused_;  // requests refused so far, at the last read; same order as ordinals_
  ledger::DeviceFiguresFunction figures_ = nullptr;
  ledger::ResetDevicePeakFunction reset_peak_ = nullptr;
  std::unique_ptr<sources::OwnGpuMemory> driver_;
};

}  // namespace headroom::bench
