#include "preload/device_hooks.h"

#include <algorithm>
#include <cstring>

#include "preload/clock.h"
#include "preload/device_contexts.h"
#include "preload/memory.h"
#include "preload/nvml.h"

namespace headroom::preload {

constinit DriverCalls driver_calls;
constinit Lock driver_lock{Lock::Kind::recursive};

namespace {

std::atomic<std::uint64_t> graph_reserved_plus_1[ledger::kMaxDevices];

}  // namespace

void reset_driver_calls_in_child() {
  driver_lock.reset();
  for (auto& reserved_plus_1 : graph_reserved_plus_1) reserved_plus_1 = 0;
  driver_calls.ended = driver_calls.begun.load();
}

bool DriverHook::is_ready() { return account_is_open(thread_) && driver::find_driver(); }

// A graph is charged before it runs, and the driver keeps its memory after it ran. So what the driver really
// has for graphs replaces their charge.
std::int64_t DriverHook::allocated_bytes(unsigned device) {
  const std::uint64_t managed = device_ledger.figures(device, DeviceMemoryKind::managed).live_bytes;
  const auto charged = static_cast<std::int64_t>(device_ledger.account().charged_to_this_process(device) +
                                                 device_ledger.rounding_bytes(device) - managed);
  const std::uint64_t reserved_plus_1 =
      graph_reserved_plus_1[device % ledger::kMaxDevices].load(std::memory_order_relaxed);
  if (reserved_plus_1 == 0) return charged;
  const auto charged_for_graphs = static_cast<std::int64_t>(device_ledger.charged_for_graphs(device));
  return charged - charged_for_graphs + static_cast<std::int64_t>(reserved_plus_1 - 1);
}

void DriverHook::trim_pools(unsigned device, std::uint64_t except) {
  const DriverLock lock;
  reconcile_graphs(device);
  if (device_ledger.has_pending_graph_memory(device)) trim_and_update_graphs(device);
  if (!driver::real.cuMemPoolTrimTo) return;
  std::size_t position = 0;
  for (std::uint64_t pool = 0; (pool = device_ledger.pool_to_settle(device, position)) != 0; ++position) {
    if (pool == except) continue;
    driver::real.cuMemPoolTrimTo(reinterpret_cast<driver::Opaque>(pool), 0);
    update_pool_charge(pool, device);
  }
}

void DriverHook::update_pool_charges(unsigned device) {
  std::size_t position = 0;
  if (device_ledger.pool_to_settle(device, position) == 0) return;
  const DriverLock lock = DriverLock::unconditional();
  position = 0;
  for (std::uint64_t pool = 0; (pool = device_ledger.pool_to_settle(device, position)) != 0; ++position)
    update_pool_charge(pool, device);
}

bool DriverHook::update_pool_charge(std::uint64_t pool, unsigned device, bool within_limit) {
  std::uint64_t reserved = 0;
  if (driver::real.cuMemPoolGetAttribute(reinterpret_cast<driver::Opaque>(pool), driver::kPoolReservedCurrent,
                                         &reserved) != driver::kSuccess)
    return true;
  const ledger::Ledger::Settled settled = device_ledger.settle_pool(pool, reserved, within_limit);
  if (settled.is_new)
    record_figure(device, DeviceMemoryKind::pool_reserved, device_ledger.reserved_by_pools(device));
  update_launched_graph_charge(device);
  return settled.fits;
}

bool DriverHook::may_have_launched_graphs(unsigned device) {
  return graph_reserved_plus_1[device % ledger::kMaxDevices].load(std::memory_order_relaxed) != 0;
}

void DriverHook::update_launched_graph_charge(unsigned device) {
  if (may_have_launched_graphs(device)) update_graph_charge(device);
}

void DriverHook::try_update_launched_graph_charge(unsigned device) {
  if (!may_have_launched_graphs(device) || !is_gpu_memory_limited() || !driver_lock.try_lock()) return;
  update_graph_charge(device);
  driver_lock.unlock();
}

void DriverHook::update_graph_charge(unsigned device) {
  std::uint64_t reserved = 0;
  std::atomic<std::uint64_t>& reserved_plus_1 = graph_reserved_plus_1[device % ledger::kMaxDevices];
  if (driver::real.cuDeviceGetGraphMemAttribute(static_cast<driver::Device>(device),
                                                driver::kGraphReservedCurrent, &reserved) != driver::kSuccess)
    return;
  device_ledger.settle_graph_memory(device, reserved);
  // Stored plus 1: 0 means that the device never had a graph with memory.
  const std::uint64_t before = reserved_plus_1.exchange(reserved + 1);
  if (before == 0) driver::watch_graphs();
  if (before != reserved + 1) record_figure(device, DeviceMemoryKind::graph_reserved, reserved);
}

void DriverHook::trim_graphs(unsigned device) {
  if (device_ledger.account().limit(device) != ledger::kNoLimit)
    driver::real.cuDeviceGraphMemTrim(static_cast<driver::Device>(device));
}

void DriverHook::trim_and_update_graphs(unsigned device) {
  trim_graphs(device);
  update_graph_charge(device);
}

// Launches are not hooked, so the driver is asked which memory is still mapped at its address.
void DriverHook::reconcile_graphs(unsigned device, bool records_found) {
  std::size_t position = 0;
  Entry orphan;
  const bool may_have_orphans = device_ledger.has_graph_orphans();
  if (!may_have_orphans && !may_have_launched_graphs(device)) return;
  const DriverLock lock;
  update_launched_graph_charge(device);
  if (!may_have_orphans || !device_ledger.next_graph_orphan(device, position, orphan)) return;
  bool has_dropped = false;
  trim_graphs(device);
  while (device_ledger.next_graph_orphan(device, position, orphan)) {
    int is_mapped = 1;
    const driver::Result result =
        !driver::real.cuPointerGetAttribute
            ? driver::kSuccess
            : driver::real.cuPointerGetAttribute(&is_mapped, driver::kPointerMapped, orphan.address);
    const bool was_known = orphan.references > 0;
    if (result == driver::kInvalidValue || (result == driver::kSuccess && is_mapped == 0)) {
      const bool is_dropped = device_ledger.drop_graph_orphan(orphan.address, orphan);
      if (is_dropped && was_known) record_release(orphan);
      has_dropped = has_dropped || is_dropped;
      continue;  // the next entry moved to this position
    }
    if (!was_known && records_found && device_ledger.keep_graph_orphan(orphan.address))
      record_allocation(orphan);
    ++position;
  }
  if (has_dropped) trim_and_update_graphs(device);
}

std::uint64_t DriverHook::stamp() {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return 0;
  attach_before_stamp(thread_);
  return time_now();
}

void DriverHook::record_allocation(const Entry& entry) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_allocation(thread_, entry.device, entry.kind, entry.address, entry.bytes, caller_);
}

void DriverHook::record_release(const Entry& entry, std::uint64_t time) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_release(thread_, entry.device, entry.kind, entry.address, time);
}

void DriverHook::record_figure(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_figure(thread_, device, kind, bytes);
}

// What the driver and NVML report about devices and the current context.

namespace {

std::atomic<bool> is_identified[ledger::kMaxDevices];
std::atomic<bool> is_registered[ledger::kMaxDevices];  // known to the ledger
std::atomic<bool> is_recorded[ledger::kMaxDevices];    // in this process' recording

bool get_uuid(unsigned device, std::uint8_t (&uuid)[16]) {
  // The second version distinguishes MIG instances.
  const auto& get =
      driver::real.cuDeviceGetUuid_v2 ? driver::real.cuDeviceGetUuid_v2 : driver::real.cuDeviceGetUuid;
  return get(uuid, static_cast<int>(device)) == driver::kSuccess;
}

// cuDeviceGetUuid returns the GPU's UUID. For a MIG instance, cuDeviceGetUuid_v2 returns the instance's own
// UUID.
bool is_mig_instance(unsigned device) {
  std::uint8_t gpu[16] = {}, own[16] = {};
  const auto ordinal = static_cast<int>(device);
  return driver::real.cuDeviceGetUuid(gpu, ordinal) == driver::kSuccess &&
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
  driver::real.cuDeviceTotalMem_v2(&total, ordinal);
  driver::real.cuDeviceGetName(name, sizeof name - 1, ordinal);
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
  if (driver::real.cuMemGetAllocationGranularity(&bytes, &properties, kMinimum) != driver::kSuccess) return 0;
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
  if (driver::real.cuCtxGetCurrent(&context) != driver::kSuccess || context == nullptr) return false;
  if (driver::real.cuCtxGetDevice(&device) != driver::kSuccess || device < 0) return false;
  current = {number_of(context), static_cast<unsigned>(device)};
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
  const bool is_unsupported = !driver::real.cuDeviceGetUuid && !driver::real.cuDeviceGetUuid_v2;
  is_identified[device].store(is_known || is_unsupported, std::memory_order_release);
}

bool DriverHook::ask_nvml(bool (*ask)(const std::uint8_t (&)[16], std::uint64_t&), unsigned device,
                          std::uint64_t& bytes) {
  std::uint8_t uuid[16] = {};
  if (!is_recording(thread_) || device >= ledger::kMaxDevices || !get_uuid(device, uuid)) return false;
  const Guard guard(thread_);
  const OwnSystemCalls own_calls;
  return ask(uuid, bytes);
}

bool DriverHook::used_of_device(unsigned device, std::uint64_t& bytes) {
  return ask_nvml(nvml::used_bytes, device, bytes);
}

bool DriverHook::used_by_this_process(unsigned device, std::uint64_t& bytes) {
  return ask_nvml(nvml::used_by_this_process, device, bytes);
}

void DriverHook::register_device(unsigned device) {
  if (device >= ledger::kMaxDevices) return;
  identify(device);
  if (__builtin_expect(!is_registered[device].load(std::memory_order_acquire), 0)) {
    int integrated = 0;
    // Before cuInit() the driver does not answer; then it is asked again.
    const bool is_known = !driver::real.cuDeviceGetAttribute ||
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
  if (driver::real.cuPointerGetAttribute(&device, driver::kPointerDevice, pointer) != driver::kSuccess ||
      device < 0 || static_cast<unsigned>(device) == where.device)
    return;
  where.device = static_cast<unsigned>(device);
  register_device(where.device);
}

bool DriverHook::find_device_at(const cuda::Location& location, CurrentDevice& where) {
  if (location.type != driver::kLocationDevice || location.id < 0) return false;
  where.device = static_cast<unsigned>(location.id);
  register_device(where.device);
  return true;
}

}  // namespace headroom::preload
