#include "tracer/device_hooks.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tracer/clock.h"
#include "tracer/device_watch.h"
#include "tracer/graph_walk.h"
#include "tracer/lock.h"
#include "tracer/memory.h"
#include "tracer/nvml.h"

namespace headroom::tracer {

namespace {

// There before any constructor has run, and after all destructors have: a driver frees at the very end.
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

Lock opening;
std::atomic<bool> has_begun{false}, is_open{false}, has_failed{false}, is_limited{false};
constinit pthread_mutex_t driver_order = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
std::atomic<bool> is_identified[ledger::kMaxDevices];
std::atomic<bool> is_met[ledger::kMaxDevices];       // by the ledger
std::atomic<bool> is_recorded[ledger::kMaxDevices];  // in this process' recording
std::atomic<std::uint64_t> kept_for_graphs[ledger::kMaxDevices];

void forget_in_child() {
  opening.reset();
  driver::reset_lock_in_child();
  if (!has_begun) return;
  driver_order = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  driver::reset_walk_in_child();
  device_ledger.reset_in_child();
  for (auto& identified : is_identified) identified = false;
  for (auto& met : is_met) met = false;
  for (auto& recorded : is_recorded) recorded = false;
  for (auto& kept : kept_for_graphs) kept = 0;
  driver_calls.ended = driver_calls.begun.load();
  nvml::reset_in_child();
  reset_watch_in_child();
  reset_refusals_in_child();
  driver::reset_contexts_in_child();
}
// Not when the account is opened, which another thread's fork may come before.
[[gnu::constructor]] void look_after_children() { ::pthread_atfork(nullptr, nullptr, forget_in_child); }

// Who cannot share a limit would have it for himself, beside the others: so he gets nothing, and is told why.
const char* words_for(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return "no descriptor is left";
    case ENOMEM:
      return "no memory is left";
    case EACCES:
    case EPERM:
      return "it is another user's";
    case ENOENT:
      return "it is in another /dev/shm";
    default:
      return "it is not one of this version";
  }
}
void tell_why_nothing(int error) {
  char why[512];
  const int length =
      std::snprintf(why, sizeof why,
                    "headroom: the account of the GPU memory limit cannot be opened by this process (%s), so "
                    "its requests for "
                    "GPU memory are refused; %s\n",
                    words_for(error),
                    error == EMFILE || error == ENFILE || error == ENOMEM
                        ? "give it more descriptors or memory (ulimit -n, ulimit -v)"
                        : "run the whole command as one user in one container, with one /dev/shm");
  if (length > 0) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, why, static_cast<std::size_t>(length));
  }
  if (process.file.is_open())
    process.file.note(
        "the account of GPU memory could not be shared: where there is a limit, all requests were refused");
}

// A program that has no descriptor or no memory left may have some soon.
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

// The command's account, or its own, or one in which nothing is to be had.
bool open_own_account(ledger::Account& account, const Options& options) {
  if (options.account[0] == 0) return open_private(account, options.device_limits);
  if (open_shared(account, options.account)) return true;
  tell_why_nothing(errno);
  ledger::Limits nothing = options.device_limits;
  for (std::uint64_t& limit : nothing.bytes)
    if (limit != ledger::kNoLimit) limit = 0;
  return open_private(account, nothing);
}

bool open_account() {
  const OwnSystemCalls own_calls;
  ledger::Account& account = device_ledger.account();
  const Options& options = process.options;
  if (!open_own_account(account, options)) return false;
  // A limit around this one, on which devices is not known here.
  ledger::Limits nothing;
  for (std::uint64_t& limit : nothing.bytes) limit = 0;
  for (unsigned i = 0; i < options.outer_account_count; ++i) {
    ledger::Account& around = outer.accounts[i];
    if (open_shared(around, options.outer_accounts[i])) {
      account.nest_in(around);
      continue;
    }
    tell_why_nothing(errno);
    if (!open_private(account, nothing)) return false;
    break;
  }
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (account.limit(device) != ledger::kNoLimit) is_limited = true;
  constexpr std::uint64_t kUsualPoolStep = std::uint64_t{32} << 20;  // of an H200
  if (is_limited) device_ledger.assume_pool_step(kUsualPoolStep);
  return true;
}

bool get_uuid(unsigned device, std::uint8_t (&uuid)[16]) {
  // The second tells MIG instances apart.
  const auto get = driver::real.cuDeviceGetUuid_v2 != nullptr ? driver::real.cuDeviceGetUuid_v2
                                                              : driver::real.cuDeviceGetUuid;
  return get != nullptr && get(uuid, static_cast<int>(device)) == driver::kSuccess;
}

// The first function tells the GPU's, and the second, of a device that is an instance of MIG, its own.
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
  const Locked locked(opening);
  has_begun = true;
  if (!is_open.load() && !has_failed.load()) {
    const bool opened = open_account();
    has_failed = !opened;
    is_open.store(opened, std::memory_order_release);
  }
  return is_open.load();
}

}  // namespace

DriverOrder::DriverOrder(bool is_needed, bool without_limit)
    : is_needed_(is_needed), without_limit_(without_limit) {
  take_again();
}
DriverOrder::~DriverOrder() { give_up(); }
void DriverOrder::take_again() {
  holds_ = is_needed_ && (without_limit_ || is_limited.load(std::memory_order_relaxed));
  if (holds_) ::pthread_mutex_lock(&driver_order);
}
void DriverOrder::give_up() {
  if (holds_) ::pthread_mutex_unlock(&driver_order);
  holds_ = false;
}
bool is_gpu_memory_limited() { return is_limited.load(std::memory_order_relaxed); }
bool try_driver_order() { return ::pthread_mutex_trylock(&driver_order) == 0; }
void end_driver_order() { ::pthread_mutex_unlock(&driver_order); }

void note_driver_out_of_reach() {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_traced(thread) || !account_is_open(thread)) return;
  device_ledger.account().note_unhooked_driver();
  if (!is_recording(thread) || !recording_is_ours()) return;
  const Guard guard(thread);
  process.file.note(
      "a driver was loaded into a namespace of its own (dlmopen): what is asked of it is neither recorded "
      "nor limited");
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
  meet(current.device);
  return true;
}

void DriverHook::identify(unsigned device) {
  if (device >= ledger::kMaxDevices ||
      __builtin_expect(is_identified[device].load(std::memory_order_acquire), 1))
    return;
  std::uint8_t uuid[16] = {};
  const bool is_told = get_uuid(device, uuid);
  if (is_told) device_ledger.account().identify(device, uuid);
  // Before cuInit the driver does not say; it is asked again. One without such a function never will.
  const bool is_silent =
      driver::real.cuDeviceGetUuid == nullptr && driver::real.cuDeviceGetUuid_v2 == nullptr;
  is_identified[device].store(is_told || is_silent, std::memory_order_release);
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

// A graph is charged before it runs, and keeps what it had after.
std::int64_t DriverHook::given_bytes(unsigned device) {
  const std::uint64_t managed = device_ledger.figures(device, DeviceMemoryKind::managed).live_bytes;
  const auto charged = static_cast<std::int64_t>(device_ledger.account().charged_to_this_process(device) +
                                                 device_ledger.rounding_bytes(device) - managed);
  const std::uint64_t kept = kept_for_graphs[device % ledger::kMaxDevices].load(std::memory_order_relaxed);
  if (kept == 0) return charged;
  const auto charged_for_graphs = static_cast<std::int64_t>(device_ledger.charged_for_graphs(device));
  return charged - charged_for_graphs + static_cast<std::int64_t>(kept - 1);
}

// In what it gives memory, as it tells for memory by handle; a driver that does not, or tells what is no
// power of 2, is charged by the byte.
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

void DriverHook::meet(unsigned device) {
  if (device >= ledger::kMaxDevices) return;
  identify(device);
  if (__builtin_expect(!is_met[device].load(std::memory_order_acquire), 0)) {
    int integrated = 0;
    // Before cuInit() the driver tells nothing: then it is asked again.
    const bool is_told = driver::real.cuDeviceGetAttribute == nullptr ||
                         driver::real.cuDeviceGetAttribute(&integrated, driver::kAttributeIntegrated,
                                                           static_cast<int>(device)) == driver::kSuccess;
    device_ledger.set_integrated(device, integrated != 0);
    if (is_told && integrated == 0) device_ledger.set_granule(device, granule_of(device));
    is_met[device].store(is_told, std::memory_order_release);
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
  meet(where.device);
}

bool DriverHook::reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes,
                         const CallFrame& caller) {
  if (device_ledger.is_charged(device, kind)) look_at_launched_graphs_unless_busy(device);
  if (device_ledger.try_reserve(device, kind, bytes)) return true;
  make_room(device);
  if (device_ledger.reserve(device, kind, bytes)) return true;
  record_last_refusal(caller);
  return false;
}

bool DriverHook::pay_granule(unsigned device, DriverOrder& order) {
  look_at_launched_graphs_unless_busy(device);
  const std::uint64_t bytes = device_ledger.granule(device);
  if (device_ledger.account().reserve(device, bytes)) return true;
  order.give_up();
  make_room(device);
  order.take_again();
  return device_ledger.account().reserve(device, bytes);
}

void DriverHook::refuse_granule(const Entry& entry, const CallFrame& caller) {
  device_ledger.refuse(entry.device, entry.kind, entry.bytes, device_ledger.granule(entry.device));
  record_last_refusal(caller);
}

// The driver does the same before it says that a device is full: it waits until what was freed in the order
// of a stream is free, and takes from the pools what they keep.
void DriverHook::make_room(unsigned device) {
  if (device_ledger.account().limit(device) == ledger::kNoLimit || !has_something_to_settle(device)) return;
  wait_for_what_was_freed();
  settle_pools(device);
}

bool DriverHook::has_something_to_settle(unsigned device) {
  std::size_t place = 0;
  return device_ledger.pool_to_settle(device, place) != 0 || device_ledger.has_graph_orphans() ||
         device_ledger.has_pending_graph_memory(device) || device_ledger.has_pending_frees();
}

// While it lives, the primary context is current in the place of a green one that is a part of it: who waits
// in that waits for that part alone.
class WholeContext {
 public:
  WholeContext(DriverHook& hook, const CurrentDevice& where)
      : hook_(hook), device_(static_cast<driver::Device>(where.device)) {
    const driver::Real& its = driver::real;
    driver::Opaque current = nullptr, primary = nullptr;
    if (its.cuCtxGetCurrent(&current) != driver::kSuccess || number_of(current) == where.context) {
      is_current_ = current != nullptr;
      return;
    }
    if (its.cuDevicePrimaryCtxRetain == nullptr || its.cuDevicePrimaryCtxRelease_v2 == nullptr ||
        its.cuCtxPushCurrent_v2 == nullptr || its.cuCtxPopCurrent_v2 == nullptr ||
        its.cuDevicePrimaryCtxRetain(&primary, device_) != driver::kSuccess)
      return;
    is_retained_ = true;
    is_current_ = is_pushed_ = its.cuCtxPushCurrent_v2(primary) == driver::kSuccess;
  }
  ~WholeContext() {
    driver::Opaque popped = nullptr;
    if (is_pushed_) driver::real.cuCtxPopCurrent_v2(&popped);
    if (is_retained_) driver::give_up_primary(hook_, device_);
  }
  WholeContext(const WholeContext&) = delete;
  WholeContext& operator=(const WholeContext&) = delete;
  bool is_current() const { return is_current_; }

 private:
  DriverHook& hook_;
  driver::Device device_;
  bool is_current_ = false, is_pushed_ = false, is_retained_ = false;
};

// Without the order: what is waited for may wait for a thread that wants it. Nor while a stream is captured,
// which that would end.
void DriverHook::wait_for_what_was_freed() {
  CurrentDevice where;
  if (driver::real.cuCtxSynchronize == nullptr || device_ledger.has_captures() || !get_current(where)) return;
  const WholeContext whole(*this, where);
  if (!whole.is_current()) return;
  const std::uint64_t wait = device_ledger.begin_wait(where.context);
  const bool may_wait = !device_ledger.has_captures();  // since it was asked one may have begun
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

SharedPart::SharedPart(DriverHook& hook, driver::Pointer pointer, const CallFrame& caller) {
  if (device_ledger.begin_export(pointer, part_)) return;
  hook.make_room(part_.device);
  if (device_ledger.begin_export(pointer, part_)) return;
  is_granted_ = false;
  device_ledger.refuse(part_.device, part_.kind, part_.charged);
  part_ = Entry{};
  hook.record_last_refusal(caller);
}
SharedPart::~SharedPart() { device_ledger.undo_export(part_); }
void SharedPart::keep() {
  device_ledger.finish_export(part_);
  part_ = Entry{};
}

void DriverHook::settle_pools(unsigned device, std::uint64_t except) {
  const DriverOrder order;
  settle_graphs(device, nullptr);
  if (device_ledger.has_pending_graph_memory(device)) settle_leaving_graphs(device);
  if (driver::real.cuMemPoolTrimTo == nullptr) return;
  std::size_t place = 0;
  for (std::uint64_t pool = 0; (pool = device_ledger.pool_to_settle(device, place)) != 0; ++place) {
    if (pool == except) continue;
    driver::real.cuMemPoolTrimTo(reinterpret_cast<driver::Opaque>(pool), 0);
    look_at_pool(pool, device);
  }
}

void DriverHook::look_at_pools(unsigned device) {
  std::size_t place = 0;
  if (device_ledger.pool_to_settle(device, place) == 0) return;
  const DriverOrder order = DriverOrder::for_pools();
  place = 0;
  for (std::uint64_t pool = 0; (pool = device_ledger.pool_to_settle(device, place)) != 0; ++place)
    look_at_pool(pool, device);
}

bool DriverHook::look_at_pool(std::uint64_t pool, unsigned device, bool keeps_limit) {
  std::uint64_t reserved = 0;
  if (driver::real.cuMemPoolGetAttribute == nullptr ||
      driver::real.cuMemPoolGetAttribute(reinterpret_cast<driver::Opaque>(pool), driver::kPoolReservedCurrent,
                                         &reserved) != driver::kSuccess)
    return true;
  const ledger::Ledger::Settled settled = device_ledger.settle_pool(pool, reserved, keeps_limit);
  if (settled.is_new)
    record_figure(device, DeviceMemoryKind::pool_reserved, device_ledger.reserved_by_pools(device));
  look_at_launched_graphs(device);
  return settled.fits;
}

bool DriverHook::may_have_launched_graphs(unsigned device) {
  return kept_for_graphs[device % ledger::kMaxDevices].load(std::memory_order_relaxed) != 0;
}

void DriverHook::look_at_launched_graphs(unsigned device) {
  if (may_have_launched_graphs(device)) look_at_graphs(device);
}

void DriverHook::look_at_launched_graphs_unless_busy(unsigned device) {
  if (!may_have_launched_graphs(device) || !is_limited.load(std::memory_order_relaxed) || !try_driver_order())
    return;
  look_at_graphs(device);
  end_driver_order();
}

void DriverHook::look_at_graphs(unsigned device) {
  std::uint64_t reserved = 0;
  std::atomic<std::uint64_t>& kept = kept_for_graphs[device % ledger::kMaxDevices];
  if (driver::real.cuDeviceGetGraphMemAttribute == nullptr ||
      driver::real.cuDeviceGetGraphMemAttribute(static_cast<driver::Device>(device),
                                                driver::kGraphReservedCurrent, &reserved) != driver::kSuccess)
    return;
  device_ledger.settle_graph_memory(device, reserved);
  // One more than the figure: 0 is a device that never had a graph with memory.
  const std::uint64_t before = kept.exchange(reserved + 1);
  if (before == 0) watch_graphs();
  if (before != reserved + 1) record_figure(device, DeviceMemoryKind::graph_reserved, reserved);
}

void DriverHook::trim_graphs(unsigned device) {
  if (driver::real.cuDeviceGraphMemTrim != nullptr &&
      device_ledger.account().limit(device) != ledger::kNoLimit)
    driver::real.cuDeviceGraphMemTrim(static_cast<driver::Device>(device));
}

void DriverHook::settle_leaving_graphs(unsigned device) {
  trim_graphs(device);
  look_at_graphs(device);
}

// No launch is watched, so the driver is asked: memory that is live is at its address.
void DriverHook::settle_graphs(unsigned device, const CallFrame* caller) {
  std::size_t place = 0;
  Entry left;
  const bool may_have_left = device_ledger.has_graph_orphans();
  if (!may_have_left && !may_have_launched_graphs(device)) return;
  const DriverOrder order;
  look_at_launched_graphs(device);
  if (!may_have_left || !device_ledger.next_graph_orphan(device, place, left)) return;
  bool has_dropped = false;
  trim_graphs(device);
  while (device_ledger.next_graph_orphan(device, place, left)) {
    int is_mapped = 1;
    const driver::Result result =
        driver::real.cuPointerGetAttribute == nullptr
            ? driver::kSuccess
            : driver::real.cuPointerGetAttribute(&is_mapped, driver::kPointerMapped, left.address);
    const bool was_known = left.references > 0;
    if (result == driver::kInvalidValue || (result == driver::kSuccess && is_mapped == 0)) {
      const bool is_dropped = device_ledger.drop_graph_orphan(left.address, left);
      if (is_dropped && was_known) record_release(left);
      has_dropped = has_dropped || is_dropped;
      continue;  // the next has its place
    }
    if (!was_known && caller != nullptr && device_ledger.keep_graph_orphan(left.address))
      record_allocation(left, *caller);
    ++place;
  }
  if (has_dropped) settle_leaving_graphs(device);
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

}  // namespace headroom::tracer
