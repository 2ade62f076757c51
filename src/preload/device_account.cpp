#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "ledger/device_query.h"
#include "preload/device_contexts.h"
#include "preload/device_hooks.h"
#include "preload/memory.h"
#include "preload/process.h"
#include "preload/recorder.h"
#include "types/lock.h"

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
constinit NeverDestroyedAccounts outer_of_process;

}  // namespace

constinit ledger::Ledger& device_ledger = ledger_of_process.ledger;

namespace {

constinit Lock open_lock;
std::atomic<bool> has_begun{false}, is_open{false}, has_failed{false}, is_limited{false};

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
    ledger::Account& outer_account = outer_of_process.accounts[i];
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

}  // namespace

bool account_is_open(ThreadLocal& thread) {
  if (__builtin_expect(is_open.load(std::memory_order_acquire), 1)) return true;
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

bool is_gpu_memory_limited() { return is_limited.load(std::memory_order_relaxed); }

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

bool reset_account_in_child() {
  open_lock.reset();
  if (has_begun) device_ledger.reset_in_child();
  return has_begun;
}

// Records a request that the limit refused: the caller, and which processes hold the memory.

namespace {

// Processes whose names are in the recording. After kMostProcessNames, further processes are recorded without
// a name.
constexpr std::size_t kMostProcessNames = 256;
struct RefusalState {
  Lock lock;
  std::int32_t named_pids[kMostProcessNames] = {};
  std::size_t count = 0;
  std::atomic<unsigned> refusals[ledger::kMaxDevices] = {};
};
constinit RefusalState refusal_state;

bool add_named_pid(std::int32_t pid) {
  const Locked locked(refusal_state.lock);
  if (refusal_state.count == kMostProcessNames ||
      std::count(refusal_state.named_pids, refusal_state.named_pids + refusal_state.count, pid) != 0)
    return false;
  refusal_state.named_pids[refusal_state.count++] = pid;
  return true;
}

// The kernel's name of the process (15 bytes; it contains no arguments and so no secrets).
void record_process_name(std::int32_t pid) {
  char path[32], name[32];
  std::snprintf(path, sizeof path, "/proc/%d/comm", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t length = ::read(fd, name, sizeof name);
  ::close(fd);
  if (length > 1 && add_named_pid(pid))  // the name ends with a newline
    process.file.write_metadata(recording::MetadataKind::process, static_cast<std::uint32_t>(pid),
                                {name, static_cast<std::size_t>(length - 1)});
}

}  // namespace

void DriverHook::record_last_refusal() {
  const ledger::Refusal refusal = ledger::Ledger::last_refusal_of_this_thread();
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_refusal(thread_, refusal.device, refusal.kind, refusal.bytes, refusal.charged, refusal.limit,
                        caller_);
  if (refusal.device >= ledger::kMaxDevices ||
      refusal_state.refusals[refusal.device].fetch_add(1) >= recording::kMostRefusalsWithHolders)
    return;
  const OwnSystemCalls own_calls;
  const pid_t own = ::getpid();
  // This process's charge is from the moment of the refusal; the other charges are read now.
  record_device_holder(thread_, refusal.device, {0, true, refusal.own});
  ledger::Account::ProcessCharge holders[recording::kMostOtherHolders + 1];
  const std::size_t count = device_ledger.account().largest_charges(refusal.device, holders);
  unsigned others = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if ((holders[i].is_visible && holders[i].pid == own) || others++ == recording::kMostOtherHolders)
      continue;
    if (holders[i].is_visible) record_process_name(holders[i].pid);
    record_device_holder(thread_, refusal.device, holders[i]);
  }
}

void reset_refusals_in_child() {
  refusal_state.lock.reset();
  refusal_state.count = 0;
  for (auto& refusals : refusal_state.refusals) refusals = 0;
}

// The functions that report a program's GPU memory to that program (ledger/device_query.h).

namespace {

ledger::DeviceFigures figures_of(unsigned device) {
  ledger::Account& account = device_ledger.account();
  ledger::DeviceFigures figures;
  figures.charged = account.charged_to_this_process(device);
  figures.peak = account.peak_of_this_process(device);
  figures.limit = account.limit(device);
  figures.charged_all = account.charged(device);
  figures.pinned_host = device_ledger.figures(device, DeviceMemoryKind::pinned_host).live_bytes +
                        device_ledger.figures(device, DeviceMemoryKind::registered_host).live_bytes;
  for (unsigned kind = 1; kind < kDeviceMemoryKinds; ++kind) {
    const ledger::KindFigures of_kind = device_ledger.figures(device, static_cast<DeviceMemoryKind>(kind));
    figures.refused_count += of_kind.refused_count;
    figures.refused_bytes += of_kind.refused_bytes;
  }
  const ledger::Refusal last = device_ledger.last_refusal(device);
  figures.last_refused_bytes = last.bytes;
  figures.last_refused_charged = last.charged;
  figures.last_refused_own = last.own;
  return figures;
}

}  // namespace

HEADROOM_HOOK bool headroom_device_figures(unsigned device, ledger::DeviceFigures* figures,
                                           std::uint64_t size) {
  if (figures == nullptr || device >= ledger::kMaxDevices) return false;
  const ledger::DeviceFigures found = figures_of(device);
  std::memcpy(static_cast<void*>(figures), &found, size < sizeof found ? size : sizeof found);
  return true;
}

HEADROOM_HOOK void headroom_reset_device_peak(unsigned device) {
  device_ledger.account().reset_peak_of_this_process(device);
}

}  // namespace headroom::preload

// Requests that the limit would refuse: memory that the driver keeps is reclaimed first.

namespace headroom::preload::driver {

namespace {

bool has_reclaimable_memory(unsigned device) {
  std::size_t position = 0;
  return device_ledger.pool_to_settle(device, position) != 0 || device_ledger.has_graph_orphans() ||
         device_ledger.has_pending_graph_memory(device) || device_ledger.has_pending_frees();
}

// Called without the driver lock: the work may wait for a thread that wants the lock. Does nothing while a
// stream is captured, because a synchronize would end the capture.
void wait_for_pending_frees(DriverHook& hook) {
  CurrentDevice where;
  if (!real.cuCtxSynchronize || device_ledger.has_captures() || !hook.get_current(where)) return;
  const std::uint64_t wait = device_ledger.begin_wait(where.context);
  const bool may_wait = !device_ledger.has_captures();  // a capture may have begun meanwhile
  if (may_wait && real.cuCtxSynchronize() == kSuccess)
    device_ledger.finish_wait(where.context, wait);
  else
    device_ledger.cancel_wait(wait);
}

}  // namespace

void reclaim_memory(DriverHook& hook, unsigned device) {
  if (device_ledger.account().limit(device) == ledger::kNoLimit || !has_reclaimable_memory(device)) return;
  wait_for_pending_frees(hook);
  hook.trim_pools(device);
}

bool reserve(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (device_ledger.is_charged(device, kind)) hook.try_update_launched_graph_charge(device);
  if (device_ledger.try_reserve(device, kind, bytes)) return true;
  reclaim_memory(hook, device);
  if (device_ledger.reserve(device, kind, bytes)) return true;
  hook.record_last_refusal();
  return false;
}

bool charge_granule(DriverHook& hook, unsigned device, DriverLock& lock) {
  hook.try_update_launched_graph_charge(device);
  const std::uint64_t bytes = device_ledger.granule(device);
  if (device_ledger.account().reserve(device, bytes)) return true;
  lock.unlock();
  reclaim_memory(hook, device);
  lock.lock();
  return device_ledger.account().reserve(device, bytes);
}

void refuse_granule(DriverHook& hook, const Entry& entry) {
  device_ledger.refuse(entry.device, entry.kind, entry.bytes, device_ledger.granule(entry.device));
  hook.record_last_refusal();
}

Pointer base_of(Pointer pointer) {
  Pointer base = 0;
  std::size_t bytes = 0;
  return real.cuMemGetAddressRange_v2(&base, &bytes, pointer) == kSuccess ? base : pointer;
}

ExportCharge::ExportCharge(DriverHook& hook, Pointer pointer) {
  if (device_ledger.begin_export(pointer, charge_)) return;
  reclaim_memory(hook, charge_.device);
  if (device_ledger.begin_export(pointer, charge_)) return;
  is_granted_ = false;
  device_ledger.refuse(charge_.device, charge_.kind, charge_.charged);
  charge_ = Entry{};
  hook.record_last_refusal();
}
ExportCharge::~ExportCharge() { device_ledger.undo_export(charge_); }
void ExportCharge::keep() {
  device_ledger.finish_export(charge_);
  charge_ = Entry{};
}

}  // namespace headroom::preload::driver
