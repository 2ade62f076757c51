// What the driver and NVML report about devices and the current context.
#include <algorithm>
#include <cstring>

#include "preload/device_hooks.h"
#include "preload/memory.h"
#include "preload/nvml.h"

namespace headroom::preload {
namespace {

std::atomic<bool> is_identified[ledger::kMaxDevices];
std::atomic<bool> is_registered[ledger::kMaxDevices];  // known to the ledger
std::atomic<bool> is_recorded[ledger::kMaxDevices];    // in this process' recording

bool get_uuid(unsigned device, std::uint8_t (&uuid)[16]) {
  // The second version distinguishes MIG instances.
  const auto get = driver::real.cuDeviceGetUuid_v2 != nullptr ? driver::real.cuDeviceGetUuid_v2
                                                              : driver::real.cuDeviceGetUuid;
  return get != nullptr && get(uuid, static_cast<int>(device)) == driver::kSuccess;
}

// cuDeviceGetUuid returns the GPU's UUID. For a MIG instance, cuDeviceGetUuid_v2 returns the instance's own
// UUID.
bool is_mig_instance(unsigned device) {
  std::uint8_t gpu[16] = {}, own[16] = {};
  const auto ordinal = static_cast<int>(device);
  return driver::real.cuDeviceGetUuid != nullptr && driver::real.cuDeviceGetUuid_v2 != nullptr &&
         driver::real.cuDeviceGetUuid(gpu, ordinal) == driver::kSuccess &&
         driver::real.cuDeviceGetUuid_v2(own, ordinal) == driver::kSuccess &&
         std::memcmp(gpu, own, sizeof gpu) != 0;
}

void describe_device(unsigned device) {
  using recording::DeviceRecord;
  DeviceRecord record{};
  char name[128] = {};
  int integrated = 0;
  const auto ordinal = static_cast<int>(device);
  std::size_t total = 0;
  if (driver::real.cuDeviceTotalMem_v2 != nullptr) driver::real.cuDeviceTotalMem_v2(&total, ordinal);
  if (driver::real.cuDeviceGetName != nullptr) driver::real.cuDeviceGetName(name, sizeof name - 1, ordinal);
  if (driver::real.cuDeviceGetAttribute != nullptr)
    driver::real.cuDeviceGetAttribute(&integrated, driver::kAttributeIntegrated, ordinal);
  get_uuid(device, record.uuid);
  record.total_bytes = total;
  record.flags = integrated != 0 ? recording::kDeviceIntegrated : 0u;
  if (is_mig_instance(device)) record.flags |= recording::kDeviceMig;
  if (device_ledger.account().limit(device) != ledger::kNoLimit) {
    record.limit_bytes = device_ledger.account().limit(device);
    record.flags |= recording::kDeviceLimited;
    if (device_ledger.account().is_shared()) record.flags |= recording::kDeviceShared;
    if (process.options.proved == ProvedLimit::hard) record.flags |= recording::kDeviceLimitHard;
    if (process.options.proved == ProvedLimit::soft) record.flags |= recording::kDeviceLimitSoft;
  }
  record.granule_bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(device_ledger.granule(device), std::uint64_t{1} << 31));
  const RecordingFile::Piece pieces[] = {{&record, sizeof record}, {name, std::strlen(name)}};
  process.file.write_metadata(recording::MetadataKind::device, device, pieces, 2);
}

// The driver's allocation granularity for memory by handle. If the driver returns none, or no power of 2,
// requests are charged by the byte.
std::uint64_t granule_of(unsigned device) {
  driver::AllocationProperties properties{};
  properties.type = driver::kPinnedMemory;
  properties.location = {driver::kLocationDevice, static_cast<int>(device)};
  std::size_t bytes = 0;
  constexpr int kMinimum = 0;
  if (driver::real.cuMemGetAllocationGranularity == nullptr ||
      driver::real.cuMemGetAllocationGranularity(&bytes, &properties, kMinimum) != driver::kSuccess)
    return 0;
  return bytes;
}

}  // namespace

void reset_registrations_in_child() {
  for (auto& identified : is_identified) identified = false;
  for (auto& registered : is_registered) registered = false;
  for (auto& recorded : is_recorded) recorded = false;
}

bool DriverHook::get_current(CurrentDevice& current) {
  driver::Opaque context = nullptr;
  driver::Device device = -1;
  if (driver::real.cuCtxGetCurrent == nullptr || driver::real.cuCtxGetDevice == nullptr) return false;
  if (driver::real.cuCtxGetCurrent(&context) != driver::kSuccess || context == nullptr) return false;
  if (driver::real.cuCtxGetDevice(&device) != driver::kSuccess || device < 0) return false;
  current = {driver::context_that_owns(number_of(context)), static_cast<unsigned>(device)};
  register_device(current.device);
  return true;
}

void DriverHook::identify(unsigned device) {
  if (device >= ledger::kMaxDevices ||
      __builtin_expect(is_identified[device].load(std::memory_order_acquire), 1))
    return;
  std::uint8_t uuid[16] = {};
  const bool is_known = get_uuid(device, uuid);
  if (is_known) device_ledger.account().identify(device, uuid);
  // Before cuInit the driver returns no UUID, so it is asked again. A driver without such a function never
  // will.
  const bool is_unsupported =
      driver::real.cuDeviceGetUuid == nullptr && driver::real.cuDeviceGetUuid_v2 == nullptr;
  is_identified[device].store(is_known || is_unsupported, std::memory_order_release);
}

bool DriverHook::used_of_device(unsigned device, std::uint64_t& bytes) {
  std::uint8_t uuid[16] = {};
  if (!is_recording(thread_) || device >= ledger::kMaxDevices || !get_uuid(device, uuid)) return false;
  const Guard guard(thread_);
  const OwnSystemCalls own_calls;
  return nvml::used_bytes(uuid, bytes);
}

bool DriverHook::used_by_this_process(unsigned device, std::uint64_t& bytes) {
  std::uint8_t uuid[16] = {};
  if (!is_recording(thread_) || device >= ledger::kMaxDevices || !get_uuid(device, uuid)) return false;
  const Guard guard(thread_);
  const OwnSystemCalls own_calls;
  return nvml::used_by_this_process(uuid, bytes);
}

void DriverHook::register_device(unsigned device) {
  if (device >= ledger::kMaxDevices) return;
  identify(device);
  if (__builtin_expect(!is_registered[device].load(std::memory_order_acquire), 0)) {
    int integrated = 0;
    // Before cuInit() the driver does not answer; then it is asked again.
    const bool is_known = driver::real.cuDeviceGetAttribute == nullptr ||
                          driver::real.cuDeviceGetAttribute(&integrated, driver::kAttributeIntegrated,
                                                            static_cast<int>(device)) == driver::kSuccess;
    device_ledger.set_integrated(device, integrated != 0);
    if (is_known && integrated == 0) device_ledger.set_granule(device, granule_of(device));
    is_registered[device].store(is_known, std::memory_order_release);
  }
  if (__builtin_expect(is_recorded[device].load(std::memory_order_relaxed), 1) || process.options.ledger)
    return;
  const Guard guard(thread_);
  if (!recording_is_ours()) start_recording_in_child(thread_);
  if (process.phase.load(std::memory_order_acquire) == Phase::recording &&
      !is_recorded[device].exchange(true))
    describe_device(device);
}

void DriverHook::find_device_of(std::uint64_t pointer, CurrentDevice& where) {
  int device = -1;
  if (driver::real.cuPointerGetAttribute == nullptr ||
      driver::real.cuPointerGetAttribute(&device, driver::kPointerDevice, pointer) != driver::kSuccess ||
      device < 0 || static_cast<unsigned>(device) == where.device)
    return;
  where.device = static_cast<unsigned>(device);
  register_device(where.device);
}

}  // namespace headroom::preload
