// The processes on a GPU, from NVML's three lists.
//
// An entry has 16, 24 or 32 bytes, and the version in the function's name does not tell which: version 3
// wrote entries of 32 bytes in the first drivers of R535 and has written 24 before and since, and drivers
// exist in which it writes 16. Taken for the wrong layout, a list has processes with the PIDs of garbage, and
// a buffer made for the smaller one overflows. So the buffer has room for the largest, it is filled with a
// pattern, and how far the driver wrote over the pattern tells the layout.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/gpu_sample.h"
#include "sources/nvml_library.h"

namespace headroom::sources::nvml {

// Bytes of an entry (16, 24 or 32) of a list of `count` entries in a buffer with room for `room`, whose first
// `written` bytes were overwritten. `declared` where what was written fits no layout.
std::size_t entry_size(std::size_t written, std::size_t count, std::size_t room, std::size_t declared);

class ProcessReader {
 public:
  explicit ProcessReader(const Library& library) : library_(library) {}
  // What runs on the GPU or MIG instance, each process once for an instance, in the order of the lists
  // (compute, graphics, MPS). Absent if the driver gives none of the lists. An entry that is no process (PID
  // 0 or above Linux's largest, as integrated GPUs give) is left out; a used size that is not told is absent.
  std::optional<std::vector<GpuProcess>> read(Device device);

 private:
  using List = Return (*)(Device, unsigned*, void*);
  bool add(List list, Device device, std::vector<GpuProcess>& processes);

  const Library& library_;
  std::vector<std::byte> buffer_;  // kept from sample to sample
};

}  // namespace headroom::sources::nvml
