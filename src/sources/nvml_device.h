// Reads one GPU through NVML: constant facts once, and figures with each sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sources/nvml_library.h"
#include "types/sample.h"

namespace headroom::sources::nvml {

// Reads the processes on a GPU from NVML's three lists.
//
// An entry has 16, 24 or 32 bytes, and the version in the function's name does not determine which. Version
// 3 wrote 32 bytes in the first R535 drivers and writes 24 before and after; in some drivers it writes 16.
// With the wrong layout, the PIDs are garbage, and a buffer for the smaller layout overflows. So the buffer
// has space for the largest layout and is filled with a pattern. The number of overwritten bytes shows the
// layout.
// Returns the size of a list entry: 16, 24 or 32 bytes. The driver reported `count` entries and overwrote the
// first `written` bytes of a buffer for `capacity` entries. Returns `declared` if no layout fits.
std::size_t entry_size(std::size_t written, std::size_t count, std::size_t capacity, std::size_t declared);

class ProcessReader {
 public:
  explicit ProcessReader(const Library& library) : library_(library) {}
  // The processes on the GPU or MIG instance, in the order of the lists (compute, graphics, MPS), each once
  // per instance. Absent if the driver provides none of the lists. Entries that are not processes are
  // dropped (integrated GPUs give PID 0 or PIDs above Linux's maximum). An unknown size is absent.
  std::optional<std::vector<GpuProcess>> read(Device device);

 private:
  using List = Return (*)(Device, unsigned*, void*);
  bool add(List list, Device device, std::vector<GpuProcess>& processes);

  const Library& library_;
  std::vector<std::byte> buffer_;  // reused for the next sample
};

// "GPU-…", or "MIG-…" of an instance; empty if the driver does not tell.
std::string uuid_of(const Functions& nvml, Device device);

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
  template <class Figures>  // GpuSample or MigInstance
  void read_memory(Device device, Figures& figures) const;
  void read_loads(GpuSample& sample) const;
  void read_clocks(GpuSample& sample) const;
  void read_mig_mode();
  void read_mig_instances(GpuSample& sample);
  void read_processes(GpuSample& sample);
  // Calls the driver. Returns false if it lacks the function or fails, or if the GPU is lost.
  template <class Call, class... Arguments>
  bool ask(Call call, Arguments... arguments) const {
    return call != nullptr && !lost_ && succeeded(call(arguments...));
  }
  template <class Call, class... Arguments>
  std::optional<unsigned> number(Call call, Arguments... arguments) const {
    unsigned value = 0;
    return ask(call, device_, arguments..., &value) ? std::optional(value) : std::nullopt;
  }
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
