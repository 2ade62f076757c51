// The conductor's account of a worker's GPU memory, collected from its phase events.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ledger/account.h"
#include "types/bench_result.h"
#include "types/gpu_memory.h"

namespace headroom::bench {

class GpuAccount {
 public:
  // Adds a device that the worker has initialised: its "device" event.
  void add_device(const nlohmann::ordered_json& event);
  // Adds the "gpu" member of a phase event. With `has_failed` it is an error event's, and `phase` is the last
  // phase that the worker reached.
  void add_phase(Phase phase, const nlohmann::ordered_json& gpu, bool has_failed = false);
  // Memory by device; empty for a worker on the CPU. `limits` absent: no limit was set. A model is within the
  // limit if it was not killed by it and its own peaks did not exceed it.
  std::vector<GpuMemory> memory(const std::optional<ledger::Limits>& limits, ModelStatus status) const;

 private:
  struct Device {
    unsigned ordinal = 0;
    GpuMemory memory;
  };
  Device* find(unsigned ordinal);
  std::vector<Device> devices_;
};

}  // namespace headroom::bench
