// What a recording says of a request that the limit refused: who asked, and which processes held the rest.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "tracer/device_hooks.h"
#include "tracer/lock.h"
#include "tracer/memory.h"
#include "tracer/recorder.h"

namespace headroom::tracer {
namespace {

// Whose names are in the recording already. A process that comes when the list is full has no name there.
constexpr std::size_t kMostNames = 256;
struct Told {
  Lock lock;
  std::int32_t named[kMostNames] = {};
  std::size_t count = 0;
  std::atomic<unsigned> refusals[ledger::kMaxDevices] = {};
};
constinit Told told;

bool is_first_of_its_name(std::int32_t pid) {
  const Locked locked(told.lock);
  if (told.count == kMostNames || std::count(told.named, told.named + told.count, pid) != 0) return false;
  told.named[told.count++] = pid;
  return true;
}

// As the kernel knows it (15 bytes, which hold no argument and so no secret).
void name_process(std::int32_t pid) {
  char path[32], name[32];
  std::snprintf(path, sizeof path, "/proc/%d/comm", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t length = ::read(fd, name, sizeof name);
  ::close(fd);
  if (length > 1 && is_first_of_its_name(pid))  // it ends with a newline
    process.file.write_metadata(recording::MetadataKind::process, static_cast<std::uint32_t>(pid),
                                {name, static_cast<std::size_t>(length - 1)});
}

}  // namespace

void DriverHook::record_last_refusal(const CallFrame& caller) {
  const ledger::Refusal refusal = ledger::Ledger::last_refusal_of_this_thread();
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_refusal(thread_, refusal.device, refusal.kind, refusal.bytes, refusal.charged, refusal.limit,
                        caller);
  if (refusal.device >= ledger::kMaxDevices ||
      told.refusals[refusal.device].fetch_add(1) >= recording::kMostRefusalsWithHolders)
    return;
  const OwnSystemCalls own_calls;
  const pid_t own = ::getpid();
  // Of the same moment as the refusal, while others are asked for now.
  record_device_holder(thread_, refusal.device, {0, true, refusal.own});
  ledger::Account::ProcessCharge holders[recording::kMostOtherHolders + 1];
  const std::size_t count = device_ledger.account().largest_charges(refusal.device, holders);
  unsigned others = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if ((holders[i].is_visible && holders[i].pid == own) || others++ == recording::kMostOtherHolders)
      continue;
    if (holders[i].is_visible) name_process(holders[i].pid);
    record_device_holder(thread_, refusal.device, holders[i]);
  }
}

void reset_refusals_in_child() {
  told.lock.reset();
  told.count = 0;
  for (auto& refusals : told.refusals) refusals = 0;
}

}  // namespace headroom::tracer
