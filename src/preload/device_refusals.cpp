// Records a request that the limit refused: the caller, and which processes hold the memory.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "preload/device_hooks.h"
#include "preload/memory.h"
#include "preload/recorder.h"
#include "types/lock.h"

namespace headroom::preload {
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

}  // namespace headroom::preload
