// Contexts, which take what was made in them along when they go, and modules, whose memory is known only by
// what is free before and after.
#include "tracer/device_hooks.h"

namespace headroom::tracer::driver {
namespace {

std::atomic<std::uint64_t> primary_contexts[ledger::kMostDevices];
std::atomic<std::uint64_t> overhead[ledger::kMostDevices];  // by difference, in bytes

void forget(DriverHook& hook, std::uint64_t context) {
  Entry dropped;
  ledger::Ledger::Pass pass;
  while (device_ledger.drop_from_context(context, pass, dropped)) hook.record_release(dropped);
}

// Its last user gave it up: the context is gone, with all that it held.
void forget_if_gone(DriverHook& hook, Device device) {
  unsigned flags = 0;
  int is_active = 1;
  if (device < 0 || device >= static_cast<int>(ledger::kMostDevices) ||
      real.cuDevicePrimaryCtxGetState == nullptr ||
      real.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != kSuccess || is_active != 0)
    return;
  forget(hook, primary_contexts[device]);
}

Result release_primary(Result (*call)(Device), Device device) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(device);
  if (result == kSuccess && hook.counts()) forget_if_gone(hook, device);
  return result;
}

Result reset_primary(Result (*call)(Device), Device device) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(device);
  if (result == kSuccess && device >= 0 && device < static_cast<int>(ledger::kMostDevices) && hook.counts())
    forget(hook, primary_contexts[device]);
  return result;
}

Result destroy_context(Result (*call)(Opaque), Opaque context) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(context);
  if (result == kSuccess && hook.counts()) forget(hook, number_of(context));
  return result;
}

// What a module takes lies in the driver's own allocations. Other processes of the device may come and go
// meanwhile, so this is a figure of its own and never a part of what was recorded.
template <class Call>
Result load_module(const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  std::size_t before = 0, after = 0, total = 0;
  if (!hook.counts() || !hook.get_current(where) || where.device >= ledger::kMostDevices ||
      real.cuMemGetInfo_v2 == nullptr || real.cuMemGetInfo_v2(&before, &total) != kSuccess)
    return call();
  const Result result = call();
  if (result == kSuccess && real.cuMemGetInfo_v2(&after, &total) == kSuccess && after < before)
    hook.record_figure(where.device, DeviceMemoryKind::overhead,
                       overhead[where.device].fetch_add(before - after) + (before - after));
  return result;
}

}  // namespace

HEADROOM_HOOK Result cuDevicePrimaryCtxRetain(Opaque* context, Device device) {
  const auto call = HEADROOM_REAL(cuDevicePrimaryCtxRetain);
  if (call == nullptr) return kNotFound;
  const Result result = call(context, device);
  if (result == kSuccess && context != nullptr && device >= 0 &&
      device < static_cast<int>(ledger::kMostDevices))
    primary_contexts[device] = number_of(*context);
  return result;
}
HEADROOM_HOOK Result cuDevicePrimaryCtxRelease(Device device) {
  return release_primary(HEADROOM_REAL(cuDevicePrimaryCtxRelease), device);
}
HEADROOM_HOOK Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return release_primary(HEADROOM_REAL(cuDevicePrimaryCtxRelease_v2), device);
}
HEADROOM_HOOK Result cuDevicePrimaryCtxReset(Device device) {
  return reset_primary(HEADROOM_REAL(cuDevicePrimaryCtxReset), device);
}
HEADROOM_HOOK Result cuDevicePrimaryCtxReset_v2(Device device) {
  return reset_primary(HEADROOM_REAL(cuDevicePrimaryCtxReset_v2), device);
}
HEADROOM_HOOK Result cuCtxDestroy(Opaque context) {
  return destroy_context(HEADROOM_REAL(cuCtxDestroy), context);
}
HEADROOM_HOOK Result cuCtxDestroy_v2(Opaque context) {
  return destroy_context(HEADROOM_REAL(cuCtxDestroy_v2), context);
}

HEADROOM_HOOK Result cuModuleLoad(Opaque* module, const char* file) {
  const auto call = HEADROOM_REAL(cuModuleLoad);
  if (call == nullptr) return kNotFound;
  return load_module([&] { return call(module, file); });
}
HEADROOM_HOOK Result cuModuleLoadData(Opaque* module, const void* image) {
  const auto call = HEADROOM_REAL(cuModuleLoadData);
  if (call == nullptr) return kNotFound;
  return load_module([&] { return call(module, image); });
}
HEADROOM_HOOK Result cuModuleLoadDataEx(Opaque* module, const void* image, unsigned count, void* options,
                                        void** values) {
  const auto call = HEADROOM_REAL(cuModuleLoadDataEx);
  if (call == nullptr) return kNotFound;
  return load_module([&] { return call(module, image, count, options, values); });
}
HEADROOM_HOOK Result cuModuleLoadFatBinary(Opaque* module, const void* image) {
  const auto call = HEADROOM_REAL(cuModuleLoadFatBinary);
  if (call == nullptr) return kNotFound;
  return load_module([&] { return call(module, image); });
}

}  // namespace headroom::tracer::driver
