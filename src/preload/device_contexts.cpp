#include "preload/device_contexts.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "ledger/account.h"

namespace headroom::preload::driver {
namespace {

std::atomic<std::uint64_t> primary_contexts[ledger::kMaxDevices];

struct Context {
  std::uint64_t number = 0;  // 0: unused entry
  unsigned device = 0;
  std::int64_t bytes = 0;
};
constexpr std::size_t kMostContexts = 256;
Context contexts[kMostContexts];
constinit Lock contexts_lock;

struct PrimaryLock {
  Lock lock{Lock::Kind::recursive};
};
constinit PrimaryLock primary_locks[ledger::kMaxDevices];

}  // namespace

bool is_device(Device device) { return device >= 0 && device < static_cast<int>(ledger::kMaxDevices); }

PrimaryLocked::PrimaryLocked(Device device)
    : lock_(is_device(device) ? &primary_locks[device].lock : nullptr) {
  if (lock_ != nullptr) lock_->lock();
}
PrimaryLocked::~PrimaryLocked() {
  if (lock_ != nullptr) lock_->unlock();
}

bool is_primary_active(Device device) {
  unsigned flags = 0;
  int active = 0;
  return real.cuDevicePrimaryCtxGetState(device, &flags, &active) == kSuccess && active != 0;
}

std::uint64_t known_primary(unsigned device) { return primary_contexts[device]; }
void set_primary(unsigned device, std::uint64_t context) { primary_contexts[device] = context; }

bool add_context(std::uint64_t number, unsigned device, std::int64_t bytes) {
  const Locked locked(contexts_lock);
  Context* free = nullptr;
  for (Context& context : contexts) {
    if (context.number == number) return false;
    if (context.number == 0 && free == nullptr) free = &context;
  }
  if (free != nullptr) *free = {number, device, bytes};
  return free != nullptr;
}

bool add_to_context(std::uint64_t number, std::int64_t bytes) {
  const Locked locked(contexts_lock);
  for (Context& context : contexts) {
    if (context.number != number) continue;
    context.bytes += bytes;
    return true;
  }
  return false;
}

void rename_context(std::uint64_t from, std::uint64_t to) {
  const Locked locked(contexts_lock);
  for (Context& context : contexts)
    if (from != 0 && context.number == from) context.number = to;
}

bool has_context(unsigned device) {
  const Locked locked(contexts_lock);
  return std::any_of(std::begin(contexts), std::end(contexts),
                     [&](const Context& context) { return context.number != 0 && context.device == device; });
}

RemovedContext remove_context(std::uint64_t number) {
  const Locked locked(contexts_lock);
  Context removed;
  for (Context& context : contexts) {
    if (context.number != number || number == 0) continue;
    std::swap(removed, context);
    break;
  }
  const bool is_last = std::none_of(std::begin(contexts), std::end(contexts), [&](const Context& context) {
    return context.number != 0 && context.device == removed.device;
  });
  return {removed.number != 0, is_last, removed.device, removed.bytes};
}

std::uint64_t context_of_stream(Opaque stream) {
  Opaque context = nullptr;
  const bool is_known = is_default_stream(stream) ? real.cuCtxGetCurrent(&context) == kSuccess
                                                  : real.cuStreamGetCtx(stream, &context) == kSuccess;
  return is_known ? number_of(context) : 0;
}

void reset_contexts_in_child() {
  contexts_lock.reset();
  for (PrimaryLock& primary : primary_locks) primary.lock.reset();
  for (Context& context : contexts) context = {};
  for (auto& context : primary_contexts) context = 0;
}

}  // namespace headroom::preload::driver
