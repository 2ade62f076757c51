#include "sources/nvml_own_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace headroom::sources {
namespace {

constexpr unsigned kMostDevicesAsked = 1024, kMostInstances = 64;  // limits against a broken driver

}  // namespace

std::unique_ptr<OwnGpuMemory> OwnGpuMemory::open(const std::string& library_file) {
  auto library = nvml::Library::open(library_file);
  if (!library) return nullptr;
  return std::unique_ptr<OwnGpuMemory>(new OwnGpuMemory(std::move(*library)));
}

OwnGpuMemory::OwnGpuMemory(std::shared_ptr<const nvml::Library> library)
    : library_(std::move(library)), processes_(*library_) {
  const nvml::Functions& nvml = library_->functions();
  unsigned count = 0;
  if (nvml.device_count(&count) != nvml::kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kMostDevicesAsked); ++i) {
    nvml::Device device = nullptr;
    if (nvml.device_by_index(i, &device) != nvml::kSuccess || device == nullptr) continue;
    if (!add_instances(device)) add(device);
  }
}

// Under MIG only root can read the whole GPU's process list, and a process belongs to an instance.
bool OwnGpuMemory::add_instances(nvml::Device gpu) {
  const nvml::Functions& nvml = library_->functions();
  unsigned most = 0;
  if (nvml.mig_count == nullptr || nvml.mig_by_index == nullptr ||
      nvml.mig_count(gpu, &most) != nvml::kSuccess)
    return false;
  bool has_some = false;
  for (unsigned i = 0; i < std::min(most, kMostInstances); ++i) {
    nvml::Device instance = nullptr;
    if (nvml.mig_by_index(gpu, i, &instance) != nvml::kSuccess || instance == nullptr) continue;
    has_some = true;
    add(instance);
  }
  return has_some;
}

void OwnGpuMemory::add(nvml::Device device) {
  const nvml::Functions& nvml = library_->functions();
  std::array<char, 96> uuid{};
  if (nvml.uuid == nullptr ||
      nvml.uuid(device, uuid.data(), static_cast<unsigned>(uuid.size())) != nvml::kSuccess)
    return;
  uuid.back() = '\0';
  devices_.emplace_back(device, uuid.data());
}

std::vector<OwnGpuMemory::Share> OwnGpuMemory::read() {
  std::vector<Share> shares;
  for (const auto& [device, uuid] : devices_) {
    const auto processes = processes_.read(device);
    if (!processes) continue;
    for (const GpuProcess& process : *processes)
      if (process.pid == ::getpid() && process.used) shares.push_back({uuid, *process.used});
  }
  return shares;
}

}  // namespace headroom::sources
