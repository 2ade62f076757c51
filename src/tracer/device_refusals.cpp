// What a recording says of a request that the limit refused: who asked, and which processes held the rest.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "tracer/device_hooks.h"
#include "tracer/lock.h"
#include "tracer/memory.h"
#include "tracer/recorder.h"

namespace headroom::tracer {
namespace {

// The largest: three others tell who it was, and a program that asks again and again fills no recording.
constexpr std::size_t kMostHolders = 4;
// Whose names are in the recording already. A process that comes when the list is full has no name there.
constexpr std::size_t kMostNames = 256;
struct Named {
  Lock lock;
  std::int32_t pids[kMostNames] = {};
  std::size_t count = 0;
};
constinit Named named;

bool has_to_be_named(std::int32_t pid) {
  const Locked locked(named.lock);
  for (std::size_t i = 0; i < named.count; ++i)
    if (named.pids[i] == pid) return false;
  if (named.count == kMostNames) return false;
  named.pids[named.count++] = pid;
  return true;
}

// As the kernel knows it (15 bytes, which hold no argument and so no secret).
void name_process(std::int32_t pid) {
  if (!has_to_be_named(pid)) return;
  char path[32], name[32];
  std::snprintf(path, sizeof path, "/proc/%d/comm", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t length = ::read(fd, name, sizeof name);
  ::close(fd);
  if (length > 1)  // it ends with a newline
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
  ledger::Account::Holder holders[kMostHolders];
  const std::size_t count = device_ledger.account().holders(refusal.device, holders);
  const OwnSystemCalls own_calls;
  const pid_t own = ::getpid();
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_own = holders[i].is_visible && holders[i].pid == own;
    if (holders[i].is_visible && !is_own) name_process(holders[i].pid);
    record_device_holder(thread_, refusal.device, is_own ? 0 : holders[i].pid, holders[i].bytes);
  }
}

void reset_refusals_in_child() {
  named.lock.reset();
  named.count = 0;
}

}  // namespace headroom::tracer
