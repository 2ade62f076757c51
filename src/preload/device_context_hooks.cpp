// Contexts and modules. Destroying a context frees everything that was allocated in it.
#include <tuple>

#include "preload/device_contexts.h"
#include "preload/device_graphs.h"
#include "preload/nvml.h"

namespace headroom::preload::driver {
namespace {

void reset_device_state_in_child() {
  reset_lock_in_child();
  if (!reset_account_in_child()) return;
  reset_driver_calls_in_child();
  reset_registrations_in_child();
  reset_walk_in_child();
  nvml::reset_in_child();
  reset_watch_in_child();
  reset_refusals_in_child();
  reset_contexts_in_child();
}
// Registered at load time and not when the account is opened, because another thread may fork before that.
[[gnu::constructor]] void register_fork_handler() {
  ::pthread_atfork(nullptr, nullptr, reset_device_state_in_child);
}

// Moves a context's entries to a temporary number while the driver destroys it. Another thread may get the
// same handle for a new context before the call returns here.
class ContextDestruction {
 public:
  explicit ContextDestruction(std::uint64_t context)
      : context_(context), number_(device_ledger.begin_destroy(context)) {
    rename_context(context_, number_);
  }
  void finish_or_undo(DriverHook& hook, bool is_destroyed) const {
    if (!is_destroyed) {
      rename_context(number_, context_);
      device_ledger.undo_destroy(number_, context_);
      return;
    }
    forget_context(hook, number_);
    Entry dropped;
    ledger::Ledger::Pass pass;
    while (device_ledger.drop_from_context(number_, pass, dropped))
      if (dropped.type == EntryType::capture)
        drop_captured_graph(hook, dropped.owner);
      else
        hook.record_release(dropped);
  }

 private:
  std::uint64_t context_, number_;
};

// Drops the primary context's entries if its last user released it. Called with the primary lock and after
// the driver's call, because other threads use the context until then if this was not the last release.
void finish_if_destroyed(DriverHook& hook, Device device) {
  unsigned flags = 0;
  int is_active = 1;
  if (!is_device(device) || real.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != kSuccess ||
      is_active != 0)
    return;
  ContextDestruction(known_primary(static_cast<unsigned>(device))).finish_or_undo(hook, true);
}

Result release_primary(DriverHook& hook, auto call, Device device) {
  const PrimaryLocked locked(device);
  const Result result = call(device);
  if (result == kSuccess) finish_if_destroyed(hook, device);
  return result;
}

Result reset_primary(DriverHook& hook, auto call, Device device) {
  if (!is_device(device)) return call(device);
  const PrimaryLocked locked(device);
  const ContextDestruction destruction(known_primary(static_cast<unsigned>(device)));
  const Result result = call(device);
  destruction.finish_or_undo(hook, result == kSuccess);
  return result;
}

Result destroy_context(DriverHook& hook, auto call, Opaque context) {
  const ContextDestruction destruction(number_of(context));
  const Result result = call(context);
  destruction.finish_or_undo(hook, result == kSuccess);
  return result;
}

// A context's size is the growth of this process's unexplained memory in NVML. If another driver call
// prevents that, it is the growth of the device's used memory. The next sample corrects it for a device's
// first context. `number()` is called after the context exists.
template <class Call, class Number>
Result measure_new_context(DriverHook& hook, Device ordinal, const Call& call, const Number& number) {
  if (!is_device(ordinal)) return call();
  const auto device = static_cast<unsigned>(ordinal);
  std::uint64_t before = 0, after = 0;
  const bool is_known = hook.used_of_device(device, before);
  std::int64_t grown = 0, unknown_before = 0, unknown = 0;
  const bool is_first = !has_context(device);
  const bool is_known_before = is_first || measure_unexplained(hook, device, unknown_before);
  const Result result = call();
  if (result != kSuccess) return result;
  hook.register_device(device);
  if (is_known && hook.used_of_device(device, after)) grown = static_cast<std::int64_t>(after - before);
  const bool is_exact = is_known_before && measure_unexplained(hook, device, unknown);
  if (is_exact) grown = unknown - unknown_before;
  count_context(hook, device, number(), grown > 0 ? grown : 0, is_first && !is_exact);
  watch_device(device);
  return result;
}

std::uint64_t number_of_new(const Opaque* context, Device device) {
  return context != nullptr ? number_of(*context) : known_primary(static_cast<unsigned>(device));
}

// Every version takes the device last.
Result create_context(DriverHook& hook, auto call, Opaque* context, auto... rest) {
  const Device device = std::get<sizeof...(rest) - 1>(std::tuple(rest...));
  return measure_new_context(
      hook, device, [&] { return call(context, rest...); }, [&] { return number_of_new(context, device); });
}

// The primary lock is not held while NVML is queried and the watcher thread starts. Both open libraries, and
// a thread that holds the loader's lock may be in this hook, called from a library's constructor.
Result retain_primary(auto call, Opaque* context, Device device) {
  const PrimaryLocked locked(device);
  const Result result = call(context, device);
  if (result != kSuccess || context == nullptr || !is_device(device)) return result;
  set_primary(static_cast<unsigned>(device), number_of(*context));
  return result;
}

// Measures the driver's memory for modules as the change of the device's free memory, minus what other
// threads of this process were charged meanwhile. For all functions that load or unload a module or library.
Result measure_modules(DriverHook& hook, auto call, auto... arguments) {
  CurrentDevice where;
  std::size_t before = 0, after = 0, total = 0;
  // On an integrated GPU, free memory is the machine's and changes with every other program.
  if (!hook.records() || !hook.get_current(where) || where.device >= ledger::kMaxDevices ||
      device_ledger.is_charged(where.device, DeviceMemoryKind::pinned_host) ||
      real.cuMemGetInfo_v2(&before, &total) != kSuccess)
    return call(arguments...);
  const auto charged = [&] {
    return static_cast<std::int64_t>(device_ledger.account().charged_to_this_process(where.device));
  };
  const std::int64_t charged_before = charged();
  const Result result = call(arguments...);
  if (result != kSuccess || real.cuMemGetInfo_v2(&after, &total) != kSuccess) return result;
  const std::int64_t freed = static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before);
  count_modules(hook, where.device, -freed - (charged() - charged_before));
  return result;
}

// After a successful call, memory with a pending free in this context's streams is free.
template <class Call>
Result synchronize(Opaque context, const Call& call) {
  const std::uint64_t number = number_of(context);
  if (context == nullptr) return call();
  const std::uint64_t wait = device_ledger.begin_wait(number);
  const Result result = call();
  if (result == kSuccess)
    device_ledger.finish_wait(number, wait);
  else
    device_ledger.cancel_wait(wait);
  return result;
}

}  // namespace

HEADROOM_CONTEXT_CALLS(HEADROOM_DEFINE_HOOK)

// Not in the table: most calls must not count as driver calls in progress, because they block long.
HEADROOM_HOOK Result cuCtxSynchronize() {
  const auto call = HEADROOM_REAL(cuCtxSynchronize);
  if (call == nullptr) return kNotFound;
  if (__builtin_expect(!device_ledger.has_pending_frees(), 1)) return call();
  DriverHook hook;
  Opaque current = nullptr;
  if (!hook.should_track() || real.cuCtxGetCurrent(&current) != kSuccess) return call();
  return synchronize(current, call);
}
HEADROOM_HOOK Result cuCtxSynchronize_v2(Opaque context) {
  const auto call = HEADROOM_REAL(cuCtxSynchronize_v2);
  if (call == nullptr) return kNotFound;
  if (__builtin_expect(!device_ledger.has_pending_frees(), 1)) return call(context);
  DriverHook hook;
  return hook.should_track() ? synchronize(context, [&] { return call(context); }) : call(context);
}
// Not in the table: the driver's own calls reach it, too, and return the primary context.
HEADROOM_HOOK Result cuDevicePrimaryCtxRetain(Opaque* context, Device device) {
  const auto call = HEADROOM_REAL(cuDevicePrimaryCtxRetain);
  if (call == nullptr) return kNotFound;
  const auto retain = [&] { return retain_primary(call, context, device); };
  if (is_primary_active(device)) return retain();
  DriverHook hook(caller_of_this_function());
  if (!hook.should_track()) return retain();
  return measure_new_context(hook, device, retain, [&] { return number_of_new(context, device); });
}

}  // namespace headroom::preload::driver
