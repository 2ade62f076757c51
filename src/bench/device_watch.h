// The worker's view of its own GPU memory: the ledger of the preload library that it was started with, and
// the driver's figure for the process. Absent where there is neither.
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
  // For the devices of a job (CUDA's ordinals). Opens NVML, before anything of the model's is there.
  explicit DeviceWatch(std::vector<unsigned> ordinals);

  // What the devices hold now, a list for a phase's event; resets the peaks, so that the next ones belong to
  // the next phase.
  nlohmann::ordered_json read_and_reset();
  // "32.0 MiB more of cuda:0 were refused at the limit of 4.0 GiB, of which 4.0 GiB were in use"; empty if
  // nothing was since the last read_and_reset().
  std::string words_for_new_refusals() const;

 private:
  std::vector<unsigned> ordinals_;
  std::vector<std::uint64_t> refused_;  // requests, at the last look, as the ordinals
  ledger::DeviceFiguresFunction figures_ = nullptr;
  ledger::ResetDevicePeakFunction reset_peak_ = nullptr;
  std::unique_ptr<sources::OwnGpuMemory> driver_;
};

}  // namespace headroom::bench
