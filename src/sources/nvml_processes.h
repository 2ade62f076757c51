// Reads the processes on a GPU from NVML's three lists.
//
// An entry has 16, 24 or 32 bytes, and the version in the function's name does not determine which. Version
// 3 wrote 32 bytes in the first R535 drivers and writes 24 before and after; in some drivers it writes 16.
// With the wrong layout, the PIDs are garbage, and a buffer for the smaller layout overflows. So the buffer
// has space for the largest layout and is filled with a pattern. The number of overwritten bytes shows the
// layout.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sources/nvml_library.h"
#include "types/gpu_sample.h"

namespace headroom::sources::nvml {

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

}  // namespace headroom::sources::nvml
