#include "sources/nvml_source.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/log.h"
#include "base/text.h"

namespace headroom::sources {
namespace {

constexpr unsigned kMostDevices = 1024, kMostInstances = 64;  // limits against a broken driver

class NvmlSource : public MetricSource {
 public:
  NvmlSource(std::shared_ptr<const nvml::Library> library, unsigned devices) : library_(std::move(library)) {
    devices_.reserve(devices);
    for (unsigned i = 0; i < devices; ++i) devices_.emplace_back(*library_, i);
    was_lost_.resize(devices, false);
  }

  std::string describe() const override {
    return fmt::format("NVML: {} GPU{}, driver {}", devices_.size(), devices_.size() == 1 ? "" : "s",
                       library_->driver_version());
  }

  bool read(SystemSample& sample) override {
    std::optional<double> busiest;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      GpuSample gpu = devices_[i].read();
      log_if_lost(i, gpu);
      if (gpu.gpu_percent) busiest = std::max(busiest.value_or(0), *gpu.gpu_percent);
      if (gpu.throttled) sample.throttled = sample.throttled.value_or(false) || *gpu.throttled;
      sample.gpus.push_back(std::move(gpu));
    }
    // On a Jetson, devfreq has already set it: the Jetson driver answers NVML late or not at all.
    if (!sample.gpu_percent) sample.gpu_percent = busiest;
    return !devices_.empty();
  }

 private:
  // Logs once when the GPU is lost and once when it is back: a lost GPU must not fill the log.
  void log_if_lost(std::size_t device, const GpuSample& gpu) {
    if (was_lost_[device] == gpu.lost) return;
    was_lost_[device] = gpu.lost;
    if (gpu.lost)
      log::warning(
          "GPU {} ({}, {}) is lost: the driver cannot reach it, so its figures are missing; check dmesg, "
          "then reset the GPU or restart the machine",
          device, gpu.name.empty() ? "unknown name" : gpu.name,
          gpu.pci_bus_id.empty() ? "unknown PCI bus id" : gpu.pci_bus_id);
    else
      log::info("GPU {} ({}) is available again", device, gpu.name);
  }

  std::shared_ptr<const nvml::Library> library_;  // declared before the devices, which use it
  std::vector<nvml::DeviceReader> devices_;
  std::vector<bool> was_lost_;
};

unsigned count_nvml_devices(const nvml::Library& library) {
  unsigned count = 0;
  if (library.functions().device_count(&count) != nvml::kSuccess) return 0;
  return std::min(count, kMostDevices);
}

constexpr std::array<const char*, 5> kSigns{
    "proc/driver/nvidia/version",
    "dev/nvidiactl",
    "dev/nvgpu",       // Jetson
    "dev/nvhost-gpu",  // Jetson, older
    "dev/dxg",         // Windows Subsystem for Linux
};

}  // namespace

std::unique_ptr<MetricSource> open_nvml_source(const std::string& library_file) {
  auto library = nvml::Library::open(library_file);
  if (!library) {
    log::debug("{}", library.error().sentence());
    return nullptr;
  }
  const unsigned devices = count_nvml_devices(**library);
  if (devices == 0) {
    log::debug("no GPU metrics: NVIDIA's driver {} found no GPU", (*library)->driver_version());
    return nullptr;
  }
  return std::make_unique<NvmlSource>(std::move(*library), devices);
}

void read_gpu_info(HostInfo& host, const std::string& library_file) {
  const auto library = nvml::Library::open(library_file);
  if (!library) return;
  host.gpu_driver = (*library)->driver_version();
  const unsigned devices = count_nvml_devices(**library);
  for (unsigned i = 0; i < devices; ++i) {
    const GpuSample gpu = nvml::DeviceReader(**library, i).read_identity();
    HostGpu facts{i, gpu.name, gpu.uuid, gpu.pci_bus_id, gpu.memory_total, gpu.mig_enabled, {}};
    for (const MigInstance& instance : gpu.mig_instances)
      facts.mig_instances.push_back({instance.name, instance.uuid, instance.memory_total});
    host.gpus.push_back(std::move(facts));
  }
}

std::unique_ptr<OwnGpuMemory> OwnGpuMemory::open(const std::string& library_file) {
  auto library = nvml::Library::open(library_file);
  if (!library) return nullptr;
  return std::unique_ptr<OwnGpuMemory>(new OwnGpuMemory(std::move(*library)));
}

OwnGpuMemory::OwnGpuMemory(std::shared_ptr<const nvml::Library> library)
    : library_(std::move(library)), processes_(*library_) {
  const unsigned devices = count_nvml_devices(*library_);
  for (unsigned i = 0; i < devices; ++i) {
    nvml::Device device = nullptr;
    if (library_->functions().device_by_index(i, &device) != nvml::kSuccess || device == nullptr) continue;
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
  std::string uuid = nvml::uuid_of(library_->functions(), device);
  if (!uuid.empty()) devices_.emplace_back(device, std::move(uuid));
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

bool has_nvidia_driver(const fs::path& root, std::string_view library_path) {
  std::error_code ignored;
  for (const char* sign : kSigns)
    if (fs::exists(root / sign, ignored)) return true;
  for (const std::string_view folder : split(library_path, ':'))
    if (!folder.empty() && fs::exists(fs::path(folder) / nvml::Library::kFileName, ignored)) return true;
  return false;
}

bool has_nvidia_driver() {
  const char* library_path = std::getenv("LD_LIBRARY_PATH");
  return has_nvidia_driver("/", library_path == nullptr ? "" : library_path);
}

}  // namespace headroom::sources
