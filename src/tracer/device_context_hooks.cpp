// Contexts, which take what was made in them along when they go, and modules. What both take lies in the
// driver's own allocations, and is known only by what is in use before and after: contexts by NVML, as there
// is nothing else to ask before the first. Other processes of the device may come and go meanwhile, so these
// are figures of their own and never a part of what was recorded. What else the driver takes, no call tells
// when: a module that is loaded by the launch of its first kernel, stacks, streams. Where NVML tells what
// this process has, a thread follows it (device_watch.h), as a figure apart: the contexts' moves when one is
// made or destroyed, and not otherwise (but that of a device's first may be put right once, soon after).
#include <algorithm>
#include <iterator>

#include "tracer/device_watch.h"
#include "tracer/lock.h"

namespace headroom::tracer::driver {
namespace {

std::atomic<std::uint64_t> primary_contexts[ledger::kMaxDevices];
std::atomic<std::int64_t> context_bytes[ledger::kMaxDevices], module_bytes[ledger::kMaxDevices],
    growth_bytes[ledger::kMaxDevices];
// The context whose bytes the next look is to put right: NVML could not be asked of the process just then.
std::atomic<std::uint64_t> provisional_contexts[ledger::kMaxDevices];

// Those that are there, with what was in use for each when it was made.
struct Context {
  std::uint64_t number = 0;  // 0: none
  unsigned device = 0;
  std::int64_t bytes = 0;
};
constexpr std::size_t kMostContexts = 256;  // more are not told apart
Context contexts[kMostContexts];
// Green contexts are parts of a device's primary one: what is made in them goes with that.
struct GreenContext {
  std::uint64_t number = 0;   // 0: none
  std::uint64_t context = 0;  // that it was made current by; 0: it was not
  unsigned device = 0;
};
GreenContext green_contexts[kMostContexts];
std::atomic<unsigned> green_count{0};
Lock contexts_lock;

// Around what makes or ends a device's primary context: in between another thread must not make it anew, for
// its handle is the same, and whether it is there is asked after the call. The driver's own calls come back
// here.
struct PrimaryLock {
  pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
};
constinit PrimaryLock primary_locks[ledger::kMaxDevices];
class PrimaryLocked {
 public:
  explicit PrimaryLocked(Device device)
      : mutex_(device >= 0 && device < static_cast<int>(ledger::kMaxDevices) ? &primary_locks[device].mutex
                                                                              : nullptr) {
    if (mutex_ != nullptr) ::pthread_mutex_lock(mutex_);
  }
  ~PrimaryLocked() {
    if (mutex_ != nullptr) ::pthread_mutex_unlock(mutex_);
  }
  PrimaryLocked(const PrimaryLocked&) = delete;
  PrimaryLocked& operator=(const PrimaryLocked&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

std::uint64_t number_without_handle(unsigned device) { return std::uint64_t{1} << 60 | device; }

// Where no call gave the primary context's handle: a green context makes it.
std::uint64_t primary_of(unsigned device) {
  const std::uint64_t known = primary_contexts[device];
  return known != 0 ? known : number_without_handle(device);
}

// False: another thread, which asked for it at the same time, has noted it.
bool note_context(std::uint64_t number, unsigned device, std::int64_t bytes) {
  const Locked locked(contexts_lock);
  Context* free = nullptr;
  for (Context& context : contexts) {
    if (context.number == number) return false;
    if (context.number == 0 && free == nullptr) free = &context;
  }
  if (free != nullptr) *free = {number, device, bytes};
  return true;
}

std::uint64_t shown(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes > 0 ? bytes : 0); }

void record_if_changed(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::int64_t before,
                       std::int64_t now) {
  if (shown(before) != shown(now)) hook.record_figure(device, kind, shown(now));
}

// With the last context of a device all that the driver had for them is gone, and their modules, too.
void note_context_gone(DriverHook& hook, std::uint64_t number) {
  Context gone;
  bool is_last = true;
  {
    const Locked locked(contexts_lock);
    for (Context& context : contexts) {
      if (context.number != number || number == 0) continue;
      std::swap(gone, context);
      break;
    }
    for (const Context& context : contexts)
      is_last = is_last && (context.number == 0 || context.device != gone.device);
  }
  if (gone.number == 0) return;
  if (!is_last) {
    const std::int64_t before = context_bytes[gone.device].fetch_sub(gone.bytes);
    return record_if_changed(hook, gone.device, DeviceMemoryKind::context, before, before - gone.bytes);
  }
  provisional_contexts[gone.device] = 0;
  record_if_changed(hook, gone.device, DeviceMemoryKind::context, context_bytes[gone.device].exchange(0), 0);
  record_if_changed(hook, gone.device, DeviceMemoryKind::overhead, module_bytes[gone.device].exchange(0), 0);
  record_if_changed(hook, gone.device, DeviceMemoryKind::driver_growth, growth_bytes[gone.device].exchange(0),
                    0);
}

bool has_context(unsigned device) {
  const Locked locked(contexts_lock);
  return std::any_of(std::begin(contexts), std::end(contexts),
                     [&](const Context& context) { return context.number != 0 && context.device == device; });
}

void rename_context(std::uint64_t from, std::uint64_t to) {
  const Locked locked(contexts_lock);
  for (Context& context : contexts)
    if (from != 0 && context.number == from) context.number = to;
}

// A context that the driver is about to destroy. Another thread may be given its handle before that is told
// here, so what it has is under a number of the ledger's meanwhile.
class LeavingContext {
 public:
  explicit LeavingContext(std::uint64_t context)
      : context_(context), number_(device_ledger.begin_destroy(kContext, context)) {
    rename_context(context_, number_);
  }
  void forget(DriverHook& hook) const {
    note_context_gone(hook, number_);
    Entry dropped;
    ledger::Ledger::Pass pass;
    while (device_ledger.drop_from_context(number_, pass, dropped))
      if (dropped.type == EntryType::capture)
        forget_captured(hook, dropped.link);
      else
        hook.record_release(dropped);
  }
  // It lives on.
  void keep() const {
    rename_context(number_, context_);
    device_ledger.undo_destroy(kContext, number_, context_);
  }
  void forget_or_keep(DriverHook& hook, bool is_gone) const {
    if (is_gone)
      forget(hook);
    else
      keep();
  }

 private:
  static constexpr auto kContext = ledger::Ledger::Owner::context;
  std::uint64_t context_, number_;
};

// Also where only green contexts had made it: then their memory has a number in its place.
struct LeavingPrimary {
  explicit LeavingPrimary(Device device)
      : known(primary_contexts[device]), of_green(number_without_handle(static_cast<unsigned>(device))) {}
  void forget_or_keep(DriverHook& hook, bool is_gone) const {
    known.forget_or_keep(hook, is_gone);
    of_green.forget_or_keep(hook, is_gone);
  }
  LeavingContext known, of_green;
};

// Its last user gave it up: the context is gone, with all that it held. Under the lock, and after the
// driver's call: other threads use it until then, if it was not the last.
void forget_if_gone(DriverHook& hook, Device device) {
  unsigned flags = 0;
  int is_active = 1;
  if (device < 0 || device >= static_cast<int>(ledger::kMaxDevices) ||
      real.cuDevicePrimaryCtxGetState == nullptr ||
      real.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != kSuccess || is_active != 0)
    return;
  LeavingPrimary(device).forget_or_keep(hook, true);
}

Result release_primary(Result (*call)(Device), Device device) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const PrimaryLocked locked(device);
  const Result result = call(device);
  if (result == kSuccess && hook.counts()) forget_if_gone(hook, device);
  return result;
}

Result reset_primary(Result (*call)(Device), Device device) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (device < 0 || device >= static_cast<int>(ledger::kMaxDevices) || !hook.counts()) return call(device);
  const PrimaryLocked locked(device);
  const LeavingPrimary leaving(device);
  const Result result = call(device);
  leaving.forget_or_keep(hook, result == kSuccess);
  return result;
}

Result destroy_context(Result (*call)(Opaque), Opaque context) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(context);
  const LeavingContext leaving(number_of(context));
  const Result result = call(context);
  leaving.forget_or_keep(hook, result == kSuccess);
  return result;
}

// Its users are counted by the driver: it is gone when it does not know it any more.
Result detach_context(Result (*call)(Opaque), Opaque context) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(context);
  const LeavingContext leaving(number_of(context));
  const Result result = call(context);
  unsigned version = 0;
  leaving.forget_or_keep(hook, result == kSuccess && real.cuCtxGetApiVersion != nullptr &&
                                   real.cuCtxGetApiVersion(context, &version) != kSuccess);
  return result;
}

// In the place of one of that number whose end was not seen.
void note_green_context(std::uint64_t number, unsigned device) {
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

int device_of_green_context(std::uint64_t number) {
  const Locked locked(contexts_lock);
  for (const GreenContext& one : green_contexts)
    if (number != 0 && one.number == number) return static_cast<int>(one.device);
  return -1;
}

void forget_green_context(std::uint64_t number, unsigned device) {
  const Locked locked(contexts_lock);
  for (GreenContext& one : green_contexts) {
    if (one.number != number || one.device != device) continue;
    one = {};
    green_count.fetch_sub(1);
  }
}

bool is_active(Device device) {
  unsigned flags = 0;
  int active = 0;
  return real.cuDevicePrimaryCtxGetState != nullptr &&
         real.cuDevicePrimaryCtxGetState(device, &flags, &active) == kSuccess && active != 0;
}

// What NVML says that this process has beyond all that is known, the hook's own call aside. False where it
// does not tell, or another call of the driver may have been under way: it gives before or after the ledger
// knows.
bool ask_unknown(DriverHook& hook, unsigned device, std::int64_t& bytes) {
  const std::uint64_t ended = driver_calls.ended, begun = driver_calls.begun;
  constexpr std::uint64_t kOwn = 1;
  std::uint64_t used = 0;
  if (begun != ended + kOwn) return false;
  const std::int64_t given = hook.given_bytes(device);
  if (!hook.used_by_this_process(device, used) || driver_calls.begun != begun) return false;
  bytes = static_cast<std::int64_t>(used) - given - module_bytes[device] - context_bytes[device] -
          growth_bytes[device];
  return true;
}

// What it takes is what NVML says that the process has more, or, where that cannot be asked just then, what
// is more in use on the device; then, if it is the device's first, the next look puts that right. `number()`
// is asked when it is there.
template <class Call, class Number>
Result make_context(Device ordinal, const Call& call, const Number& number) {
  DriverHook hook;
  const auto device = static_cast<unsigned>(ordinal);
  std::uint64_t before = 0, after = 0;
  if (!hook.counts() || device >= ledger::kMaxDevices) return call();
  const bool is_told = hook.used_of_device(device, before);
  std::int64_t grown = 0, unknown_before = 0, unknown = 0;
  const bool is_first = !has_context(device);
  const bool is_known_before = is_first || ask_unknown(hook, device, unknown_before);
  const Result result = call();
  if (result != kSuccess) return result;
  hook.meet(device);
  if (is_told && hook.used_of_device(device, after)) grown = static_cast<std::int64_t>(after - before);
  const bool is_exact = is_known_before && ask_unknown(hook, device, unknown);
  if (is_exact) grown = unknown - unknown_before;
  if (grown < 0) grown = 0;
  if (const std::uint64_t made = number(); note_context(made, device, grown)) {
    const std::int64_t had = context_bytes[device].fetch_add(grown);
    record_if_changed(hook, device, DeviceMemoryKind::context, had, had + grown);
    if (is_first && !is_exact) provisional_contexts[device] = made;
  }
  watch_device(device);
  return result;
}

template <class Call>
Result make_context(Opaque* context, Device ordinal, const Call& call) {
  return make_context(ordinal, call, [&] {
    return context != nullptr ? number_of(*context) : primary_of(static_cast<unsigned>(ordinal));
  });
}

// All that is not known of the process yet is its. False: it is gone.
bool settle_context(DriverHook& hook, unsigned device, std::uint64_t number, std::int64_t more) {
  const auto is_found = [&] {
    const Locked locked(contexts_lock);
    for (Context& context : contexts) {
      if (context.number != number) continue;
      context.bytes += more;
      return true;
    }
    return false;
  };
  if (!is_found()) return false;
  const std::int64_t had = context_bytes[device].fetch_add(more);
  record_if_changed(hook, device, DeviceMemoryKind::context, had, had + more);
  return true;
}

// What this process was charged meanwhile, by another thread, is no module's.
template <class Call>
Result change_modules(const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  std::size_t before = 0, after = 0, total = 0;
  // On an integrated GPU what is free is the machine's, and moves with everything else.
  if (!hook.counts() || !hook.records() || !hook.get_current(where) || where.device >= ledger::kMaxDevices ||
      device_ledger.is_charged(where.device, DeviceMemoryKind::pinned_host) ||
      real.cuMemGetInfo_v2 == nullptr || real.cuMemGetInfo_v2(&before, &total) != kSuccess)
    return call();
  const auto charged = [&] {
    return static_cast<std::int64_t>(device_ledger.account().charged_to_this_process(where.device));
  };
  const std::int64_t charged_before = charged();
  const Result result = call();
  if (result != kSuccess || real.cuMemGetInfo_v2(&after, &total) != kSuccess) return result;
  const std::int64_t grown =
      static_cast<std::int64_t>(before) - static_cast<std::int64_t>(after) - (charged() - charged_before);
  if (grown == 0) return result;
  const std::int64_t bytes = module_bytes[where.device].fetch_add(grown) + grown;
  hook.record_figure(where.device, DeviceMemoryKind::overhead,
                     static_cast<std::uint64_t>(bytes > 0 ? bytes : 0));
  return result;
}

}  // namespace

std::uint64_t context_that_owns(std::uint64_t context) {
  if (__builtin_expect(green_count.load(std::memory_order_relaxed) == 0, 1)) return context;
  const Locked locked(contexts_lock);
  for (const GreenContext& green : green_contexts)
    if (green.context == context && context != 0) return primary_of(green.device);
  return context;
}

void give_up_primary(DriverHook& hook, Device device) {
  const PrimaryLocked locked(device);
  if (real.cuDevicePrimaryCtxRelease_v2 != nullptr && real.cuDevicePrimaryCtxRelease_v2(device) == kSuccess)
    forget_if_gone(hook, device);
}

bool is_of_green_context(Opaque stream, CurrentDevice& where) {
  Opaque of_stream = nullptr;
  if (__builtin_expect(green_count.load(std::memory_order_relaxed) == 0, 1) || is_default_stream(stream) ||
      real.cuStreamGetGreenCtx == nullptr || real.cuStreamGetGreenCtx(stream, &of_stream) != kSuccess ||
      of_stream == nullptr)
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
  const bool is_known =
      is_default_stream(stream)
          ? real.cuCtxGetCurrent != nullptr && real.cuCtxGetCurrent(&context) == kSuccess
          : real.cuStreamGetCtx != nullptr && real.cuStreamGetCtx(stream, &context) == kSuccess;
  return is_known ? context_that_owns(number_of(context)) : 0;
}

void reset_contexts_in_child() {
  contexts_lock.reset();
  green_count = 0;
  for (PrimaryLock& lock : primary_locks) lock.mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  for (Context& context : contexts) context = {};
  for (GreenContext& context : green_contexts) context = {};
  for (auto& bytes : context_bytes) bytes = 0;
  for (auto& bytes : module_bytes) bytes = 0;
  for (auto& bytes : growth_bytes) bytes = 0;
  for (auto& context : provisional_contexts) context = 0;
  for (auto& context : primary_contexts) context = 0;
}

void look_at_driver_growth(DriverHook& hook, unsigned device) {
  std::int64_t more = 0;
  if (!has_context(device) || !ask_unknown(hook, device, more)) return;
  const std::uint64_t context = provisional_contexts[device].exchange(0);
  if (context != 0 && settle_context(hook, device, context, more)) return;
  const std::int64_t before = growth_bytes[device].fetch_add(more);
  record_if_changed(hook, device, DeviceMemoryKind::driver_growth, before, before + more);
}

// The lock is not held while NVML is asked and the watch begins: these open libraries, and a thread that
// holds the loader's lock may be here, in a library's constructor.
HEADROOM_HOOK Result cuDevicePrimaryCtxRetain(Opaque* context, Device device) {
  const auto call = HEADROOM_REAL(cuDevicePrimaryCtxRetain);
  if (call == nullptr) return kNotFound;
  const auto retain = [&] {
    const PrimaryLocked locked(device);
    const Result result = call(context, device);
    if (result != kSuccess || context == nullptr || device < 0 ||
        device >= static_cast<int>(ledger::kMaxDevices))
      return result;
    const auto ordinal = static_cast<unsigned>(device);
    const std::uint64_t before = primary_contexts[ordinal];
    primary_contexts[ordinal] = number_of(*context);
    // What green contexts of it had until now is its own.
    if (before == 0) device_ledger.rename_context(number_without_handle(ordinal), number_of(*context));
    return result;
  };
  return is_active(device) ? retain() : make_context(context, device, retain);
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

HEADROOM_HOOK Result cuCtxDetach(Opaque context) {
  return detach_context(HEADROOM_REAL(cuCtxDetach), context);
}

// A green context keeps its device's primary one.
HEADROOM_HOOK Result cuGreenCtxCreate(Opaque* green, Opaque resources, Device device, unsigned flags) {
  const auto call = HEADROOM_REAL(cuGreenCtxCreate);
  if (call == nullptr) return kNotFound;
  const auto create = [&] {
    const PrimaryLocked locked(device);
    return call(green, resources, device, flags);
  };
  const Result result = is_active(device) ? create() : make_context(device, create, [&] {
    return primary_of(static_cast<unsigned>(device));
  });
  DriverHook hook;
  if (result == kSuccess && green != nullptr && hook.counts())
    note_green_context(number_of(*green), static_cast<unsigned>(device));
  return result;
}
HEADROOM_HOOK Result cuCtxFromGreenCtx(Opaque* context, Opaque green) {
  const auto call = HEADROOM_REAL(cuCtxFromGreenCtx);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(context, green);
  if (result != kSuccess || context == nullptr || !hook.counts()) return result;
  const Locked locked(contexts_lock);
  for (GreenContext& known : green_contexts)
    if (known.number == number_of(green)) known.context = number_of(*context);
  return result;
}
HEADROOM_HOOK Result cuGreenCtxDestroy(Opaque green) {
  const auto call = HEADROOM_REAL(cuGreenCtxDestroy);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(green);
  const int device = device_of_green_context(number_of(green));
  const PrimaryLocked locked(device);
  const Result result = call(green);
  if (result != kSuccess || device < 0) return result;
  forget_green_context(number_of(green), static_cast<unsigned>(device));
  forget_if_gone(hook, device);
  return result;
}

HEADROOM_HOOK Result cuCtxSynchronize() {
  const auto call = HEADROOM_REAL(cuCtxSynchronize);
  if (call == nullptr) return kNotFound;
  if (__builtin_expect(!device_ledger.has_pending_frees_or_unmaps(), 1)) return call();
  DriverHook hook;
  Opaque current = nullptr;
  if (!hook.counts() || real.cuCtxGetCurrent(&current) != kSuccess) return call();
  return hook.wait_as_asked(current, call);
}
HEADROOM_HOOK Result cuCtxSynchronize_v2(Opaque context) {
  const auto call = HEADROOM_REAL(cuCtxSynchronize_v2);
  if (call == nullptr) return kNotFound;
  if (__builtin_expect(!device_ledger.has_pending_frees_or_unmaps(), 1)) return call(context);
  DriverHook hook;
  return hook.counts() ? hook.wait_as_asked(context, [&] { return call(context); }) : call(context);
}

HEADROOM_HOOK Result cuCtxCreate(Opaque* context, unsigned flags, Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate);
  if (call == nullptr) return kNotFound;
  return make_context(context, device, [&] { return call(context, flags, device); });
}
HEADROOM_HOOK Result cuCtxCreate_v2(Opaque* context, unsigned flags, Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate_v2);
  if (call == nullptr) return kNotFound;
  return make_context(context, device, [&] { return call(context, flags, device); });
}
HEADROOM_HOOK Result cuCtxCreate_v3(Opaque* context, void* affinity, int count, unsigned flags,
                                    Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate_v3);
  if (call == nullptr) return kNotFound;
  return make_context(context, device, [&] { return call(context, affinity, count, flags, device); });
}
HEADROOM_HOOK Result cuCtxCreate_v4(Opaque* context, void* parameters, unsigned flags, Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate_v4);
  if (call == nullptr) return kNotFound;
  return make_context(context, device, [&] { return call(context, parameters, flags, device); });
}

HEADROOM_HOOK Result cuModuleLoad(Opaque* module, const char* file) {
  const auto call = HEADROOM_REAL(cuModuleLoad);
  if (call == nullptr) return kNotFound;
  return change_modules([&] { return call(module, file); });
}
HEADROOM_HOOK Result cuModuleLoadData(Opaque* module, const void* image) {
  const auto call = HEADROOM_REAL(cuModuleLoadData);
  if (call == nullptr) return kNotFound;
  return change_modules([&] { return call(module, image); });
}
HEADROOM_HOOK Result cuModuleLoadDataEx(Opaque* module, const void* image, unsigned count, void* options,
                                        void** values) {
  const auto call = HEADROOM_REAL(cuModuleLoadDataEx);
  if (call == nullptr) return kNotFound;
  return change_modules([&] { return call(module, image, count, options, values); });
}
HEADROOM_HOOK Result cuModuleLoadFatBinary(Opaque* module, const void* image) {
  const auto call = HEADROOM_REAL(cuModuleLoadFatBinary);
  if (call == nullptr) return kNotFound;
  return change_modules([&] { return call(module, image); });
}

HEADROOM_HOOK Result cuModuleUnload(Opaque module) {
  const auto call = HEADROOM_REAL(cuModuleUnload);
  if (call == nullptr) return kNotFound;
  return change_modules([&] { return call(module); });
}
HEADROOM_HOOK Result cuLibraryLoadData(Opaque* library, const void* code, void* options, void** values,
                                       unsigned count, void* library_options, void** library_values,
                                       unsigned library_count) {
  const auto call = HEADROOM_REAL(cuLibraryLoadData);
  if (call == nullptr) return kNotFound;
  return change_modules([&] {
    return call(library, code, options, values, count, library_options, library_values, library_count);
  });
}
HEADROOM_HOOK Result cuLibraryLoadFromFile(Opaque* library, const char* file, void* options, void** values,
                                           unsigned count, void* library_options, void** library_values,
                                           unsigned library_count) {
  const auto call = HEADROOM_REAL(cuLibraryLoadFromFile);
  if (call == nullptr) return kNotFound;
  return change_modules([&] {
    return call(library, file, options, values, count, library_options, library_values, library_count);
  });
}
HEADROOM_HOOK Result cuLibraryUnload(Opaque library) {
  const auto call = HEADROOM_REAL(cuLibraryUnload);
  if (call == nullptr) return kNotFound;
  return change_modules([&] { return call(library); });
}

}  // namespace headroom::tracer::driver
