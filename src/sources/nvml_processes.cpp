#include "sources/nvml_processes.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace headroom::sources::nvml {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr std::size_t kLargestEntry = sizeof(ProcessInfoV3);
constexpr unsigned kFirstRoom = 61;  // entries; a prime, so that a list filled to its end is rarely ambiguous
constexpr unsigned kMostRoom = 100'000;          // what no driver can mean
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

// A process that computes and draws is in two lists with the same memory: not to be added.
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

std::size_t entry_size(std::size_t written, std::size_t count, std::size_t room, std::size_t declared) {
  constexpr std::array kSizes{sizeof(ProcessInfoV2), sizeof(ProcessInfoV3), sizeof(ProcessInfoV1)};
  for (const std::size_t size : kSizes)
    if (written == size * count) return size;
  for (const std::size_t size : kSizes)  // a driver that clears the whole buffer first
    if (written == size * room) return size;
  return declared;
}

bool ProcessReader::add(List list, Device device, std::vector<GpuProcess>& processes) {
  if (list == nullptr) return false;
  if (buffer_.empty()) buffer_.resize(kFirstRoom * kLargestEntry);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::fill(buffer_.begin(), buffer_.end(), kPattern);
    const auto room = static_cast<unsigned>(buffer_.size() / kLargestEntry);
    unsigned count = room;
    const Return code = list(device, &count, buffer_.data());
    if (code == kInsufficientSize && count < kMostRoom) {
      buffer_.resize((std::max(count, room) + kFirstRoom) * kLargestEntry);
      continue;
    }
    if (code != kSuccess || count > room) return false;
    const auto last =
        std::find_if(buffer_.rbegin(), buffer_.rend(), [](std::byte byte) { return byte != kPattern; });
    const auto written = static_cast<std::size_t>(buffer_.rend() - last);
    const std::size_t size = entry_size(written, count, room, sizeof(ProcessInfoV2));
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
  bool told = false;
  for (const List list : {nvml.compute_processes, nvml.graphics_processes, nvml.mps_processes})
    told = add(list, device, processes) || told;
  if (!told) return std::nullopt;
  return processes;
}

}  // namespace headroom::sources::nvml
