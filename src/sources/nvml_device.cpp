#include "sources/nvml_device.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstring>

namespace headroom::sources::nvml {

namespace {

struct ReasonWords {
  ClockReason reason;
  std::string_view words;
  bool throttles;
};

constexpr std::array<ReasonWords, 9> kReasons{{
    {kHwThermalSlowdown, "hardware thermal slowdown", true},
    {kHwPowerBrakeSlowdown, "hardware power brake", true},
    {kHwSlowdown, "hardware slowdown", true},
    {kSwThermalSlowdown, "software thermal slowdown", true},
    {kSwPowerCap, "software power cap", true},
    {kSyncBoost, "sync boost with another GPU", true},
    {kDisplayClockSetting, "display clock setting", false},
    {kApplicationsClocksSetting, "application clock setting", false},
    {kGpuIdle, "idle", false},
}};

// An impossible figure is driver garbage, so it counts as absent.
std::optional<Bytes> bytes_of(unsigned long long count) {
  return count <= INT64_MAX ? std::optional(Bytes{static_cast<std::int64_t>(count)}) : std::nullopt;
}

std::optional<double> scaled(std::optional<unsigned> value, double factor) {
  return value ? std::optional<double>(*value * factor) : std::nullopt;
}

template <std::size_t Length>
std::string nvml_text_of(Return (*call)(Device, char*, unsigned), Device device) {
  std::array<char, Length + 1> text{};
  if (call == nullptr || call(device, text.data(), Length) != kSuccess) return {};
  return text.data();
}

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
  process.used = bytes_of(info.used);
  process.gpu_instance = instance_of(info.gpu_instance);
  process.compute_instance = instance_of(info.compute_instance);
  return process;
}

// A process with compute and graphics is in two lists with the same memory, so the sizes must not be added.
void merge(const GpuProcess& process, std::vector<GpuProcess>& processes) {
  const auto same = std::ranges::find_if(processes, [&](const GpuProcess& known) {
    return known.pid == process.pid && known.gpu_instance == process.gpu_instance &&
           known.compute_instance == process.compute_instance;
  });
  if (same == processes.end())
    processes.push_back(process);
  else if (process.used)
    same->used = std::max(same->used.value_or(Bytes{}), *process.used);
}

}  // namespace

std::string uuid_of(const Functions& nvml, Device device) {
  return nvml_text_of<kUuidLength>(nvml.uuid, device);
}

void set_clock_reasons(GpuSample& sample, std::uint64_t reasons) {
  sample.throttle_reasons.clear();
  sample.clock_limits.clear();
  for (const ReasonWords& known : kReasons) {
    if ((reasons & known.reason) == 0) continue;
    (known.throttles ? sample.throttle_reasons : sample.clock_limits).emplace_back(known.words);
    reasons &= ~static_cast<std::uint64_t>(known.reason);
  }
  if (reasons != 0) sample.clock_limits.push_back(fmt::format("reason {:#x}", reasons));
  sample.throttled = !sample.throttle_reasons.empty();
}

DeviceReader::DeviceReader(const Library& library, unsigned index)
    : nvml_(library.functions()), processes_(library), index_(index) {
  identity_.index = index;
  take_handle();
}

bool DeviceReader::succeeded(Return code) const {
  if (code == kGpuIsLost || code == kResetRequired) lost_ = true;
  return code == kSuccess;
}

bool DeviceReader::take_handle() {
  if (device_ != nullptr) return true;
  Device device = nullptr;
  if (!succeeded(nvml_.device_by_index(index_, &device)) || device == nullptr) return false;
  device_ = device;
  identity_.name = nvml_text_of<kNameLength>(nvml_.name, device_);
  identity_.uuid = uuid_of(nvml_, device_);
  PciInfo pci{};
  if (ask(nvml_.pci_info, device_, &pci)) {
    pci.bus_id[sizeof pci.bus_id - 1] = pci.bus_id_legacy[sizeof pci.bus_id_legacy - 1] = '\0';
    identity_.pci_bus_id = pci.bus_id[0] != '\0' ? pci.bus_id : pci.bus_id_legacy;
  }
  return true;
}

GpuSample DeviceReader::read_identity() {
  lost_ = false;
  GpuSample sample = identity_;
  if (!take_handle()) {
    sample.lost = lost_;  // otherwise this process may not open the GPU
    return sample;
  }
  read_mig_mode();
  sample = identity_;
  read_memory(device_, sample);
  read_mig_instances(sample);
  sample.lost = lost_;
  return sample;
}

GpuSample DeviceReader::read() {
  GpuSample sample = read_identity();
  if (device_ == nullptr || lost_) return sample;
  read_loads(sample);
  read_clocks(sample);
  sample.power_watts = scaled(number(nvml_.power), 1e-3);
  sample.power_limit_watts = scaled(number(nvml_.power_limit), 1e-3);
  sample.temperature_celsius = scaled(number(nvml_.temperature, kGpuTemperature), 1);
  read_processes(sample);
  sample.lost = lost_;
  return sample;
}

// Version 2 reports reserved memory separately; drivers before R510 have only version 1. A GPU without
// dedicated memory answers NOT_SUPPORTED, or 0 bytes (Orin).
template <class Figures>
void DeviceReader::read_memory(Device device, Figures& figures) const {
  const auto set = [&](const auto& memory) {
    figures.memory_total = bytes_of(memory.total);
    figures.memory_used = bytes_of(memory.used);
    figures.memory_free = bytes_of(memory.free);
  };
  MemoryV2 now{kMemoryV2Version, 0, 0, 0, 0};
  MemoryV1 before{};
  if (ask(nvml_.memory_v2, device, &now) && now.total > 0) {
    set(now);
    figures.memory_reserved = bytes_of(now.reserved);
  } else if (ask(nvml_.memory_v1, device, &before) && before.total > 0) {
    set(before);
  }
}

void DeviceReader::read_loads(GpuSample& sample) const {
  Utilization load{};
  if (ask(nvml_.utilization, device_, &load)) {
    sample.gpu_percent = load.gpu;
    sample.memory_percent = load.memory;
  }
  const auto engine = [&](Return (*call)(Device, unsigned*, unsigned*)) -> std::optional<double> {
    unsigned percent = 0, period_us = 0;
    return ask(call, device_, &percent, &period_us) ? std::optional<double>(percent) : std::nullopt;
  };
  sample.encoder_percent = engine(nvml_.encoder_utilization);
  sample.decoder_percent = engine(nvml_.decoder_utilization);
}

void DeviceReader::read_clocks(GpuSample& sample) const {
  const auto hertz = [&](unsigned type) { return scaled(number(nvml_.clock, type), 1e6); };
  sample.graphics_clock_hz = hertz(kGraphicsClock);
  sample.sm_clock_hz = hertz(kSmClock);
  sample.memory_clock_hz = hertz(kMemoryClock);
  unsigned long long reasons = 0;
  if (ask(nvml_.clock_reasons, device_, &reasons)) set_clock_reasons(sample, reasons);
}

// Reads the MIG mode every ten seconds only: this call takes 145 of the 170 µs of a reading on an H200, and
// the mode changes only while no process uses the GPU.
void DeviceReader::read_mig_mode() {
  constexpr Nanoseconds kInterval{10'000'000'000};
  const Nanoseconds now = monotonic_now();
  if (nvml_.mig_mode == nullptr || (mig_asked_ && now - *mig_asked_ < kInterval)) return;
  mig_asked_ = now;
  unsigned current = 0, pending = 0;
  identity_.mig_enabled.reset();
  if (ask(nvml_.mig_mode, device_, &current, &pending)) identity_.mig_enabled = current == 1;
  if (lost_) mig_asked_.reset();
}

// Instances are created and destroyed at run time, and an old handle could then mean another instance. So
// every sample looks them up again.
void DeviceReader::read_mig_instances(GpuSample& sample) {
  instances_.clear();
  if (sample.mig_enabled != true || lost_ || nvml_.mig_by_index == nullptr) return;
  const unsigned most = std::min(number(nvml_.mig_count).value_or(0), 64U);
  for (unsigned i = 0; i < most; ++i) {
    Device device = nullptr;
    if (!ask(nvml_.mig_by_index, device_, i, &device) || device == nullptr) continue;
    MigInstance instance;
    instance.index = i;
    instance.name = nvml_text_of<kNameLength>(nvml_.name, device);
    instance.uuid = uuid_of(nvml_, device);
    unsigned id = 0;
    if (ask(nvml_.gpu_instance, device, &id)) instance.gpu_instance = id;
    if (ask(nvml_.compute_instance, device, &id)) instance.compute_instance = id;
    read_memory(device, instance);
    sample.mig_instances.push_back(std::move(instance));
    instances_.push_back(device);
  }
}

// Under MIG only root can read the GPU's process list; each instance has its own.
void DeviceReader::read_processes(GpuSample& sample) {
  if (lost_) return;
  if (instances_.empty()) {
    sample.processes = processes_.read(device_);
    return;
  }
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    const auto list = processes_.read(instances_[i]);
    if (!list) continue;
    if (!sample.processes) sample.processes.emplace();
    for (GpuProcess process : *list) {
      process.gpu_instance = sample.mig_instances[i].gpu_instance;
      process.compute_instance = sample.mig_instances[i].compute_instance;
      sample.processes->push_back(process);
    }
  }
}

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
