#include "preload/device_account.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

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

}  // namespace headroom::preload
