#include "preload/device_hooks.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "preload/clock.h"
#include "preload/device_watch.h"
#include "preload/graph_walk.h"
#include "preload/lock.h"
#include "preload/memory.h"
#include "preload/nvml.h"

namespace headroom::preload {

namespace {

// Usable before any constructor has run and after all destructors have: a driver frees memory at the very
// end.
union NeverDestroyed {
  constexpr NeverDestroyed() : ledger() {}
  ~NeverDestroyed() {}
  ledger::Ledger ledger;
};
constinit NeverDestroyed ledger_of_process;
union NeverDestroyedAccounts {
  constexpr NeverDestroyedAccounts() : accounts() {}
  ~NeverDestroyedAccounts() {}
  ledger::Account accounts[ledger::kMaxAccounts - 1];
};
constinit NeverDestroyedAccounts outer;

}  // namespace

constinit ledger::Ledger& device_ledger = ledger_of_process.ledger;
constinit DriverCalls driver_calls;

namespace {

Lock open_lock;
std::atomic<bool> has_begun{false}, is_open{false}, has_failed{false}, is_limited{false};
constinit pthread_mutex_t driver_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
std::atomic<bool> is_identified[ledger::kMaxDevices];
std::atomic<bool> is_registered[ledger::kMaxDevices];  // known to the ledger
std::atomic<bool> is_recorded[ledger::kMaxDevices];    // in this process' recording
std::atomic<std::uint64_t> graph_reserved_plus_1[ledger::kMaxDevices];

void reset_device_state_in_child() {
  open_lock.reset();
  driver::reset_lock_in_child();
  if (!has_begun) return;
  driver_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  driver::reset_walk_in_child();
  device_ledger.reset_in_child();
  for (auto& identified : is_identified) identified = false;
  for (auto& registered : is_registered) registered = false;
  for (auto& recorded : is_recorded) recorded = false;
  for (auto& reserved_plus_1 : graph_reserved_plus_1) reserved_plus_1 = 0;
  driver_calls.ended = driver_calls.begun.load();
  nvml::reset_in_child();
  reset_watch_in_child();
  reset_refusals_in_child();
  driver::reset_contexts_in_child();
}
// Registered at load time and not when the account is opened, because another thread may fork before that.
[[gnu::constructor]] void register_fork_handler() {
  ::pthread_atfork(nullptr, nullptr, reset_device_state_in_child);
}

// A process that cannot join the shared account would get a second full limit. So all its requests are
// refused, and it prints the reason.
const char* describe_error(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return "no file descriptor left";
    case ENOMEM:
      return "no memory left";
    case EACCES:
    case EPERM:
      return "it belongs to another user";
    case ENOENT:
      return "the file does not exist in this /dev/shm";
    default:
      return "it is not an account of this version of Headroom";
  }
}
void report_denied_requests(int error) {
  char why[512];
  const int length = std::snprintf(
      why, sizeof why,
      "headroom: cannot open the shared account of the GPU memory limit: %s: this process gets no "
      "GPU memory; %s\n",
      describe_error(error),
      error == EMFILE || error == ENFILE || error == ENOMEM
          ? "raise the limits of the process (ulimit -n, ulimit -v)"
          : "run the whole command as one user in one container, with one /dev/shm");
  if (length > 0) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, why, static_cast<std::size_t>(length));
  }
  if (process.file.is_open())
    process.file.note(
        "cannot open the shared account of GPU memory: all requests on devices with a limit are refused");
}

// A program that is out of descriptors or memory may have some again soon, so this retries for a second.
bool open_shared(ledger::Account& account, const char* path) {
  constexpr int kTries = 100;
  constexpr timespec kPause{0, 10'000'000};
  for (int i = 0; i < kTries; ++i) {
    if (account.open_shared(path)) return true;
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) return false;
    ::syscall(SYS_nanosleep, &kPause, nullptr);
  }
  return false;
}

bool open_private(ledger::Account& account, const ledger::Limits& limits) {
  if (account.open_private(limits)) return true;
  void* const spare = std::exchange(process.spare_account, nullptr);
  if (spare != nullptr) account.open_private_in(spare, limits);
  return spare != nullptr;
}

// Opens the shared account of the command, or a private one. If the shared one fails, the private one has a
// limit of 0.
bool open_own_account(ledger::Account& account, const Options& options) {
  if (options.account[0] == 0) return open_private(account, options.device_limits);
  if (open_shared(account, options.account)) return true;
  report_denied_requests(errno);
  ledger::Limits zero_limits = options.device_limits;
  for (std::uint64_t& limit : zero_limits.bytes)
    if (limit != ledger::kNoLimit) limit = 0;
  return open_private(account, zero_limits);
}

bool open_account() {
  const OwnSystemCalls own_calls;
  ledger::Account& account = device_ledger.account();
  const Options& options = process.options;
  if (!open_own_account(account, options)) return false;
  // An outer account may limit any device, so if it fails, all devices get a limit of 0.
  ledger::Limits zero_limits;
  for (std::uint64_t& limit : zero_limits.bytes) limit = 0;
  for (unsigned i = 0; i < options.outer_account_count; ++i) {
    ledger::Account& outer_account = outer.accounts[i];
    if (open_shared(outer_account, options.outer_accounts[i])) {
      account.nest_in(outer_account);
      continue;
    }
    report_denied_requests(errno);
    if (!open_private(account, zero_limits)) return false;
    break;
  }
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (account.limit(device) != ledger::kNoLimit) is_limited = true;
  constexpr std::uint64_t kUsualPoolStep = std::uint64_t{32} << 20;  // measured on an H200
  if (is_limited) device_ledger.assume_pool_step(kUsualPoolStep);
  return true;
}

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

void describe(unsigned device) {
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

bool account_is_open(ThreadLocal& thread) {
  const Guard guard(thread);
  const Locked locked(open_lock);
  has_begun = true;
  if (!is_open.load() && !has_failed.load()) {
    const bool opened = open_account();
    has_failed = !opened;
    is_open.store(opened, std::memory_order_release);
  }
  return is_open.load();
}

}  // namespace

DriverLock::DriverLock(bool is_needed, bool is_unconditional)
    : is_needed_(is_needed), is_unconditional_(is_unconditional) {
  lock();
}
DriverLock::~DriverLock() { unlock(); }
void DriverLock::lock() {
  is_held_ = is_needed_ && (is_unconditional_ || is_limited.load(std::memory_order_relaxed));
  if (is_held_) ::pthread_mutex_lock(&driver_mutex);
}
void DriverLock::unlock() {
  if (is_held_) ::pthread_mutex_unlock(&driver_mutex);
  is_held_ = false;
}
bool is_gpu_memory_limited() { return is_limited.load(std::memory_order_relaxed); }
bool try_lock_driver() { return ::pthread_mutex_trylock(&driver_mutex) == 0; }
void unlock_driver() { ::pthread_mutex_unlock(&driver_mutex); }

void note_unhooked_driver() {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_traced(thread) || !account_is_open(thread)) return;
  device_ledger.account().note_unhooked_driver();
  if (!is_recording(thread) || !recording_is_ours()) return;
  const Guard guard(thread);
  process.file.note(
      "a driver was loaded into a separate namespace (dlmopen): its GPU memory is neither recorded nor "
      "limited");
}

bool DriverHook::is_ready() {
  if (__builtin_expect(is_open.load(std::memory_order_acquire), 1)) return driver::find_driver();
  return account_is_open(thread_) && driver::find_driver();
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

// The driver's allocation granularity for memory by handle. If the driver returns none, or no power of 2,
// requests are charged by the byte.
static std::uint64_t granule_of(unsigned device) {
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
    describe(device);
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

bool DriverHook::reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes,
                         const CallFrame& caller) {
  if (device_ledger.is_charged(device, kind)) try_update_launched_graph_charge(device);
  if (device_ledger.try_reserve(device, kind, bytes)) return true;
  reclaim_memory(device);
  if (device_ledger.reserve(device, kind, bytes)) return true;
  record_last_refusal(caller);
  return false;
}

bool DriverHook::charge_granule(unsigned device, DriverLock& lock) {
  try_update_launched_graph_charge(device);
  const std::uint64_t bytes = device_ledger.granule(device);
  if (device_ledger.account().reserve(device, bytes)) return true;
  lock.unlock();
  reclaim_memory(device);
  lock.lock();
  return device_ledger.account().reserve(device, bytes);
}

void DriverHook::refuse_granule(const Entry& entry, const CallFrame& caller) {
  device_ledger.refuse(entry.device, entry.kind, entry.bytes, device_ledger.granule(entry.device));
  record_last_refusal(caller);
}

// Waits until pending frees complete, and takes unused memory from the pools. The driver does the same before
// it reports that a device is full.
void DriverHook::reclaim_memory(unsigned device) {
  if (device_ledger.account().limit(device) == ledger::kNoLimit || !has_reclaimable_memory(device)) return;
  wait_for_pending_frees();
  trim_pools(device);
}

bool DriverHook::has_reclaimable_memory(unsigned device) {
  std::size_t position = 0;
  return device_ledger.pool_to_settle(device, position) != 0 || device_ledger.has_graph_orphans() ||
         device_ledger.has_pending_graph_memory(device) || device_ledger.has_pending_frees();
}

// Makes the primary context current, in place of a green context that is a part of it. A synchronize in a
// green context would wait for that part alone.
class PrimaryContextScope {
 public:
  PrimaryContextScope(DriverHook& hook, const CurrentDevice& where)
      : hook_(hook), device_(static_cast<driver::Device>(where.device)) {
    const driver::Real& functions = driver::real;
    driver::Opaque current = nullptr, primary = nullptr;
    if (functions.cuCtxGetCurrent(&current) != driver::kSuccess || number_of(current) == where.context) {
      is_current_ = current != nullptr;
      return;
    }
    if (functions.cuDevicePrimaryCtxRetain == nullptr || functions.cuDevicePrimaryCtxRelease_v2 == nullptr ||
        functions.cuCtxPushCurrent_v2 == nullptr || functions.cuCtxPopCurrent_v2 == nullptr ||
        functions.cuDevicePrimaryCtxRetain(&primary, device_) != driver::kSuccess)
      return;
    is_retained_ = true;
    is_current_ = is_pushed_ = functions.cuCtxPushCurrent_v2(primary) == driver::kSuccess;
  }
  ~PrimaryContextScope() {
    driver::Opaque popped = nullptr;
    if (is_pushed_) driver::real.cuCtxPopCurrent_v2(&popped);
    if (is_retained_) driver::release_retained_primary(hook_, device_);
  }
  PrimaryContextScope(const PrimaryContextScope&) = delete;
  PrimaryContextScope& operator=(const PrimaryContextScope&) = delete;
  bool is_current() const { return is_current_; }

 private:
  DriverHook& hook_;
  driver::Device device_;
  bool is_current_ = false, is_pushed_ = false, is_retained_ = false;
};

// Called without the driver lock: the work may wait for a thread that wants the lock. Does nothing while a
// stream is captured, because a synchronize would end the capture.
void DriverHook::wait_for_pending_frees() {
  CurrentDevice where;
  if (driver::real.cuCtxSynchronize == nullptr || device_ledger.has_captures() || !get_current(where)) return;
  const PrimaryContextScope scope(*this, where);
  if (!scope.is_current()) return;
  const std::uint64_t wait = device_ledger.begin_wait(where.context);
  const bool may_wait = !device_ledger.has_captures();  // a capture may have begun meanwhile
  if (may_wait && driver::real.cuCtxSynchronize() == driver::kSuccess)
    device_ledger.finish_wait(where.context, wait);
  else
    device_ledger.cancel_wait(wait);
}

driver::Pointer base_of(driver::Pointer pointer) {
  driver::Pointer base = 0;
  std::size_t bytes = 0;
  const auto get = driver::real.cuMemGetAddressRange_v2;
  return get != nullptr && get(&base, &bytes, pointer) == driver::kSuccess ? base : pointer;
}

ExportCharge::ExportCharge(DriverHook& hook, driver::Pointer pointer, const CallFrame& caller) {
  if (device_ledger.begin_export(pointer, charge_)) return;
  hook.reclaim_memory(charge_.device);
  if (device_ledger.begin_export(pointer, charge_)) return;
  is_granted_ = false;
  device_ledger.refuse(charge_.device, charge_.kind, charge_.charged);
  charge_ = Entry{};
  hook.record_last_refusal(caller);
}
ExportCharge::~ExportCharge() { device_ledger.undo_export(charge_); }
void ExportCharge::keep() {
  device_ledger.finish_export(charge_);
  charge_ = Entry{};
}

void DriverHook::trim_pools(unsigned device, std::uint64_t except) {
  const DriverLock lock;
  reconcile_graphs(device, nullptr);
  if (device_ledger.has_pending_graph_memory(device)) trim_and_update_graphs(device);
  if (driver::real.cuMemPoolTrimTo == nullptr) return;
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
  if (driver::real.cuMemPoolGetAttribute == nullptr ||
      driver::real.cuMemPoolGetAttribute(reinterpret_cast<driver::Opaque>(pool), driver::kPoolReservedCurrent,
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
  if (!may_have_launched_graphs(device) || !is_limited.load(std::memory_order_relaxed) || !try_lock_driver())
    return;
  update_graph_charge(device);
  unlock_driver();
}

void DriverHook::update_graph_charge(unsigned device) {
  std::uint64_t reserved = 0;
  std::atomic<std::uint64_t>& reserved_plus_1 = graph_reserved_plus_1[device % ledger::kMaxDevices];
  if (driver::real.cuDeviceGetGraphMemAttribute == nullptr ||
      driver::real.cuDeviceGetGraphMemAttribute(static_cast<driver::Device>(device),
                                                driver::kGraphReservedCurrent, &reserved) != driver::kSuccess)
    return;
  device_ledger.settle_graph_memory(device, reserved);
  // Stored plus 1: 0 means that the device never had a graph with memory.
  const std::uint64_t before = reserved_plus_1.exchange(reserved + 1);
  if (before == 0) watch_graphs();
  if (before != reserved + 1) record_figure(device, DeviceMemoryKind::graph_reserved, reserved);
}

void DriverHook::trim_graphs(unsigned device) {
  if (driver::real.cuDeviceGraphMemTrim != nullptr &&
      device_ledger.account().limit(device) != ledger::kNoLimit)
    driver::real.cuDeviceGraphMemTrim(static_cast<driver::Device>(device));
}

void DriverHook::trim_and_update_graphs(unsigned device) {
  trim_graphs(device);
  update_graph_charge(device);
}

// Launches are not hooked, so the driver is asked which memory is still mapped at its address.
void DriverHook::reconcile_graphs(unsigned device, const CallFrame* caller) {
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
        driver::real.cuPointerGetAttribute == nullptr
            ? driver::kSuccess
            : driver::real.cuPointerGetAttribute(&is_mapped, driver::kPointerMapped, orphan.address);
    const bool was_known = orphan.references > 0;
    if (result == driver::kInvalidValue || (result == driver::kSuccess && is_mapped == 0)) {
      const bool is_dropped = device_ledger.drop_graph_orphan(orphan.address, orphan);
      if (is_dropped && was_known) record_release(orphan);
      has_dropped = has_dropped || is_dropped;
      continue;  // the next entry moved to this position
    }
    if (!was_known && caller != nullptr && device_ledger.keep_graph_orphan(orphan.address))
      record_allocation(orphan, *caller);
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

void DriverHook::record_allocation(const Entry& entry, const CallFrame& caller) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_allocation(thread_, entry.device, entry.kind, entry.address, entry.bytes, caller);
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

}  // namespace headroom::preload
