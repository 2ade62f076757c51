// The conductor's side of what a worker tells of its GPU memory: collected phase by phase.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ledger/account.h"
#include "model/bench_result.h"
#include "model/gpu_memory.h"

namespace headroom::bench {

class GpuAccount {
 public:
  // A device that the worker made ready: its "device" event.
  void add_device(const nlohmann::ordered_json& event);
  // The "gpu" member of a phase's event; of an error's event with the phase that the worker was in then.
  void add_phase(Phase phase, const nlohmann::ordered_json& gpu, bool has_failed = false);
  // A list, by device; empty for a worker on the CPU. `limits` absent: none was set. Within the limit: it
  // lived by it, and its own peaks did not pass it.
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
