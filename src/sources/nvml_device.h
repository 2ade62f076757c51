// One GPU by NVML: what does not change, once, and its figures at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/gpu_sample.h"
#include "sources/nvml_library.h"
#include "sources/nvml_processes.h"

namespace headroom::sources::nvml {

// Sets throttled, throttle_reasons and clock_limits by NVML's bit set of reasons. Heat, power and another GPU
// throttle; an idle GPU and clocks that somebody set do not. A reason that this Headroom does not know is
// "reason 0x200".
void set_clock_reasons(GpuSample& sample, std::uint64_t reasons);

class DeviceReader {
 public:
  // Takes the device's handle, name, UUID, PCI bus id and enforced power limit. A device without a handle (it
  // is lost) is asked for it again at each sample.
  DeviceReader(const Library& library, unsigned index);
  // Every figure that the driver gives now.
  GpuSample read();
  // What does not change: index, name, UUID, PCI bus id, total memory, MIG mode and instances; no processes.
  GpuSample read_identity();

 private:
  bool take_handle();
  void read_memory(Device device, GpuSample& sample) const;
  void read_loads(GpuSample& sample) const;
  void read_clocks(GpuSample& sample) const;
  void read_mig_mode();
  void read_mig_instances(GpuSample& sample);
  void read_processes(GpuSample& sample);
  // The figure, or nothing; notes that the GPU is lost.
  std::optional<unsigned> number(Return (*call)(Device, unsigned*)) const;
  std::optional<unsigned> number(Return (*call)(Device, unsigned which, unsigned*), unsigned which) const;
  bool succeeded(Return code) const;

  const Functions& nvml_;
  ProcessReader processes_;
  GpuSample identity_;
  Device device_ = nullptr;
  unsigned index_;
  std::optional<Nanoseconds> mig_asked_;
  std::vector<Device> instances_;  // MIG, in the order of the sample's
  mutable bool lost_ = false;
};

}  // namespace headroom::sources::nvml
