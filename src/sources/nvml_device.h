// Reads one GPU through NVML: constant facts once, and figures with each sample.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sources/nvml_library.h"
#include "sources/nvml_processes.h"
#include "types/gpu_sample.h"

namespace headroom::sources::nvml {

// Sets throttled, throttle_reasons and clock_limits from NVML's bit set of reasons. Heat, power and sync
// boost with another GPU throttle; idle clocks and configured clocks do not. An unknown reason counts
// as a clock limit, as the text "reason 0x200".
void set_clock_reasons(GpuSample& sample, std::uint64_t reasons);

class DeviceReader {
 public:
  // Gets the device's handle, name, UUID and PCI bus id. Without a handle (the GPU is lost), each sample
  // tries again.
  DeviceReader(const Library& library, unsigned index);
  // Reads every figure that the driver provides.
  GpuSample read();
  // Reads only facts: index, name, UUID, PCI bus id, total memory, MIG mode and instances; no processes.
  GpuSample read_identity();

 private:
  bool take_handle();
  void read_memory(Device device, GpuSample& sample) const;
  void read_loads(GpuSample& sample) const;
  void read_clocks(GpuSample& sample) const;
  void read_mig_mode();
  void read_mig_instances(GpuSample& sample);
  void read_processes(GpuSample& sample);
  // Returns the figure, or nothing. Sets lost_ if the GPU is lost.
  std::optional<unsigned> number(Return (*call)(Device, unsigned*)) const;
  std::optional<unsigned> number(Return (*call)(Device, unsigned which, unsigned*), unsigned which) const;
  bool succeeded(Return code) const;

  const Functions& nvml_;
  ProcessReader processes_;
  GpuSample identity_;
  Device device_ = nullptr;
  unsigned index_;
  std::optional<Nanoseconds> mig_asked_;
  std::vector<Device> instances_;  // MIG instances, in the order of sample.mig_instances
  mutable bool lost_ = false;
};

}  // namespace headroom::sources::nvml
