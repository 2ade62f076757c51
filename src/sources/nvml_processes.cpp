#include "sources/nvml_processes.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace headroom::sources::nvml {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr std::size_t kLargestEntry = sizeof(ProcessInfoV3);
constexpr unsigned kFirstCapacity = 61;          // entries; a prime, so that a full list is rarely ambiguous
constexpr unsigned kMostEntries = 100'000;       // a larger number is an error of the driver
constexpr std::int64_t kLargestPid = 4'194'304;  // Linux's PID_MAX_LIMIT
constexpr int kTries = 4;                        // the number of processes can grow between two calls

std::optional<std::int64_t> instance_of(unsigned id) {
  return id == kNoInstance ? std::nullopt : std::optional<std::int64_t>(id);
}

GpuProcess process_at(const std::byte* entry, std::size_t size) {
  ProcessInfoV2 info{0, kNotAvailable, kNoInstance, kNoInstance};
  std::memcpy(&info, entry, std::min(size, sizeof info));
  GpuProcess process;
  process.pid = info.pid;
  if (info.used != kNotAvailable && info.used <= INT64_MAX)
    process.used = Bytes{static_cast<std::int64_t>(info.used)};
  process.gpu_instance = instance_of(info.gpu_instance);
  process.compute_instance = instance_of(info.compute_instance);
  return process;
}

// A process with compute and graphics is in two lists with the same memory, so the sizes must not be added.
void merge(const GpuProcess& process, std::vector<GpuProcess>& processes) {
  const auto same = std::find_if(processes.begin(), processes.end(), [&](const GpuProcess& known) {
    return known.pid == process.pid && known.gpu_instance == process.gpu_instance &&
           known.compute_instance == process.compute_instance;
  });
  if (same == processes.end())
    processes.push_back(process);
  else if (process.used)
    same->used = std::max(same->used.value_or(Bytes{}), *process.used);
}

}  // namespace

std::size_t entry_size(std::size_t written, std::size_t count, std::size_t capacity, std::size_t declared) {
  constexpr std::array kSizes{sizeof(ProcessInfoV2), sizeof(ProcessInfoV3), sizeof(ProcessInfoV1)};
  for (const std::size_t size : kSizes)
    if (written == size * count) return size;
  for (const std::size_t size : kSizes)  // the driver cleared the whole buffer first
    if (written == size * capacity) return size;
  return declared;
}

bool ProcessReader::add(List list, Device device, std::vector<GpuProcess>& processes) {
  if (list == nullptr) return false;
  if (buffer_.empty()) buffer_.resize(kFirstCapacity * kLargestEntry);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::fill(buffer_.begin(), buffer_.end(), kPattern);
    const auto capacity = static_cast<unsigned>(buffer_.size() / kLargestEntry);
    unsigned count = capacity;
    const Return code = list(device, &count, buffer_.data());
    if (code == kInsufficientSize && count < kMostEntries) {
      buffer_.resize((std::max(count, capacity) + kFirstCapacity) * kLargestEntry);
      continue;
    }
    if (code != kSuccess || count > capacity) return false;
    const auto last =
        std::find_if(buffer_.rbegin(), buffer_.rend(), [](std::byte byte) { return byte != kPattern; });
    const auto written = static_cast<std::size_t>(buffer_.rend() - last);
    const std::size_t size = entry_size(written, count, capacity, sizeof(ProcessInfoV2));
    for (unsigned i = 0; i < count; ++i) {
      const GpuProcess process = process_at(buffer_.data() + i * size, size);
      if (process.pid > 0 && process.pid <= kLargestPid) merge(process, processes);
    }
    return true;
  }
  return false;
}

std::optional<std::vector<GpuProcess>> ProcessReader::read(Device device) {
  const Functions& nvml = library_.functions();
  std::vector<GpuProcess> processes;
  bool has_list = false;
  for (const List list : {nvml.compute_processes, nvml.graphics_processes, nvml.mps_processes})
    has_list = add(list, device, processes) || has_list;
  if (!has_list) return std::nullopt;
  return processes;
}

}  // namespace headroom::sources::nvml
