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
struct GreenContext {
  std::uint64_t number = 0;   // 0: unused entry
  std::uint64_t context = 0;  // its CUcontext from cuCtxFromGreenCtx; 0: none yet
  unsigned device = 0;
};
GreenContext green_contexts[kMostContexts];
std::atomic<unsigned> green_count{0};
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
std::uint64_t set_primary(unsigned device, std::uint64_t context) {
  return primary_contexts[device].exchange(context);
}
std::uint64_t placeholder_number(unsigned device) { return std::uint64_t{1} << 60 | device; }
std::uint64_t primary_of(unsigned device) {
  const std::uint64_t known = known_primary(device);
  return known != 0 ? known : placeholder_number(device);
}

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

// Replaces an entry of the same number whose destruction was not seen.
void add_green_context(std::uint64_t number, unsigned device) {
  const Locked locked(contexts_lock);
  GreenContext* place = nullptr;
  for (GreenContext& one : green_contexts)
    if (one.number == number || (one.number == 0 && place == nullptr)) {
      place = &one;
      if (one.number == number) break;
    }
  if (place == nullptr) return;
  if (place->number == 0) green_count.fetch_add(1);
  *place = {number, 0, device};
}

void set_context_of_green(std::uint64_t number, std::uint64_t context) {
  const Locked locked(contexts_lock);
  for (GreenContext& green : green_contexts)
    if (green.number == number) green.context = context;
}

int device_of_green_context(std::uint64_t number) {
  const Locked locked(contexts_lock);
  for (const GreenContext& one : green_contexts)
    if (number != 0 && one.number == number) return static_cast<int>(one.device);
  return -1;
}

void remove_green_context(std::uint64_t number, unsigned device) {
  const Locked locked(contexts_lock);
  for (GreenContext& one : green_contexts) {
    if (one.number != number || one.device != device) continue;
    one = {};
    green_count.fetch_sub(1);
  }
}

std::uint64_t context_that_owns(std::uint64_t context) {
  if (__builtin_expect(green_count.load(std::memory_order_relaxed) == 0, 1)) return context;
  const Locked locked(contexts_lock);
  for (const GreenContext& green : green_contexts)
    if (green.context == context && context != 0) return primary_of(green.device);
  return context;
}

bool is_of_green_context(Opaque stream, CurrentDevice& where) {
  Opaque of_stream = nullptr;
  if (__builtin_expect(green_count.load(std::memory_order_relaxed) == 0, 1) || is_default_stream(stream) ||
      real.cuStreamGetGreenCtx(stream, &of_stream) != kSuccess || of_stream == nullptr)
    return false;
  const Locked locked(contexts_lock);
  for (const GreenContext& green : green_contexts) {
    if (green.number != number_of(of_stream)) continue;
    where = {primary_of(green.device), green.device};
    return true;
  }
  return false;
}

std::uint64_t context_of_stream(Opaque stream) {
  Opaque context = nullptr;
  CurrentDevice primary;
  if (is_of_green_context(stream, primary)) return primary.context;
  const bool is_known = is_default_stream(stream) ? real.cuCtxGetCurrent(&context) == kSuccess
                                                  : real.cuStreamGetCtx(stream, &context) == kSuccess;
  return is_known ? context_that_owns(number_of(context)) : 0;
}

void reset_contexts_in_child() {
  contexts_lock.reset();
  green_count = 0;
  for (PrimaryLock& primary : primary_locks) primary.lock.reset();
  for (Context& context : contexts) context = {};
  for (GreenContext& context : green_contexts) context = {};
  for (auto& context : primary_contexts) context = 0;
}

}  // namespace headroom::preload::driver
