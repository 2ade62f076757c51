#include "bench/conductor/gpu_account.h"

#include <algorithm>

#include "base/json.h"

namespace headroom::bench {
namespace {

void raise(std::optional<Bytes>& peak, std::optional<Bytes> bytes) {
  if (bytes) peak = std::max(peak.value_or(*bytes), *bytes);
}

// Adds the figures of the worker's ledger at the end of a phase.
void add_ledger_figures(GpuMemory& memory, Phase phase, const Json& entry, bool has_failed) {
  const auto charged = get_bytes(entry, "charged_bytes"), peak = get_bytes(entry, "peak_bytes");
  memory.refused = get_integer(entry, "refused").value_or(0);
  if (memory.refused > 0) memory.refused_bytes = get_bytes(entry, "refused_bytes");
  if (has_failed) {
    // The worker failed in the step after `phase`.
    raise(phase < Phase::model_loaded ? memory.load_peak : memory.run_peak, peak);
    return;
  }
  switch (phase) {
    case Phase::start:
      break;
    case Phase::runtime_loaded:
      memory.runtime = charged;
      break;
    case Phase::model_loaded:
      memory.loaded = charged;
      raise(memory.load_peak, peak);  // a pipeline loads several models
      break;
    case Phase::warm:
      raise(memory.run_peak, peak);
      break;
    case Phase::running:
      raise(memory.run_peak, peak);
      memory.running = charged;
      memory.pinned_host = get_bytes(entry, "pinned_bytes");
      break;
    case Phase::unloaded:
      memory.residual = charged;
      break;
  }
}

void add_driver(GpuMemory& memory, Phase phase, std::optional<Bytes> used) {
  switch (phase) {
    case Phase::runtime_loaded:
      memory.process_runtime = used;
      break;
    case Phase::model_loaded:
      memory.process_loaded = used;
      break;
    case Phase::running:
      memory.process_running = used;
      break;
    case Phase::unloaded:
      memory.process_residual = used;
      break;
    case Phase::start:
    case Phase::warm:
      break;
  }
}

}  // namespace

GpuAccount::Device* GpuAccount::find(unsigned ordinal) {
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const Device& device) { return device.ordinal == ordinal; });
  return found == devices_.end() ? nullptr : &*found;
}

void GpuAccount::add_device(const Json& event) {
  Device device;
  device.ordinal = static_cast<unsigned>(get_integer(event, "ordinal").value_or(0));
  device.memory.device = get_text(event, "device");
  device.memory.name = get_text(event, "name");
  device.memory.uuid = get_text(event, "uuid");
  if (const auto total = get_bytes(event, "total_bytes"); total && *total > Bytes{})
    device.memory.total = total;
  device.memory.is_integrated = get_bool(event, "is_integrated");
  if (find(device.ordinal) == nullptr) devices_.push_back(std::move(device));
}

void GpuAccount::add_phase(Phase phase, const Json& gpu, bool has_failed) {
  for (const Json& entry : get_member(gpu, "ledger"))
    if (Device* const device = find(static_cast<unsigned>(get_integer(entry, "ordinal").value_or(0))))
      add_ledger_figures(device->memory, phase, entry, has_failed);
  if (has_failed) return;
  const Json& shares = get_member(gpu, "driver");
  for (Device& device : devices_)
    for (const Json& share : shares) {
      // If there is one device and one share, they match, even if a MIG instance reports another UUID.
      const bool is_only = devices_.size() == 1 && shares.size() == 1;
      if (is_only || get_text(share, "uuid") == device.memory.uuid)
        add_driver(device.memory, phase, get_bytes(share, "used_bytes"));
    }
}

std::vector<GpuMemory> GpuAccount::memory(const std::optional<ledger::Limits>& limits,
                                          ModelStatus status) const {
  std::vector<GpuMemory> list;
  for (const Device& device : devices_) {
    GpuMemory memory = device.memory;
    const std::uint64_t limit =
        limits && device.ordinal < ledger::kMaxDevices ? limits->bytes[device.ordinal] : ledger::kNoLimit;
    if (limit != ledger::kNoLimit) {
      memory.limit = Bytes{static_cast<std::int64_t>(limit)};
      if (memory.total == memory.limit) memory.total.reset();  // the ledger reports the limit as the total
      const std::optional<Bytes> peak = std::max(memory.load_peak, memory.run_peak);
      // If the worker died before its first report, this stays unknown.
      if (status == ModelStatus::oom && memory.refused > 0)
        memory.within_limit = false;
      else if (peak)
        memory.within_limit = *peak <= *memory.limit;
    }
    list.push_back(std::move(memory));
  }
  return list;
}

}  // namespace headroom::bench
