// Contexts and modules. Destroying a context frees everything that was allocated in it.
//
// The driver allocates the memory of contexts and modules itself, so it is measured as a difference before
// and after the call. For contexts the figures come from NVML, because nothing else answers before the first
// context exists. Other processes may allocate on the device meanwhile. So the results are separate figures,
// and never part of the recorded allocations.
//
// The driver takes more memory at times that no call reports: for stacks, for streams, and for a module that
// the first launch of its kernel loads. Where NVML reports this process's memory, a thread samples it as a
// separate figure (device_watch.h). The contexts' figure changes only when a context is created or destroyed.
// The first context of a device may be corrected once, soon after its creation.
#include <algorithm>
#include <iterator>

#include "preload/device_watch.h"
#include "preload/lock.h"

namespace headroom::preload::driver {
namespace {

std::atomic<std::uint64_t> primary_contexts[ledger::kMaxDevices];
std::atomic<std::int64_t> context_bytes[ledger::kMaxDevices], module_bytes[ledger::kMaxDevices],
    growth_bytes[ledger::kMaxDevices];
// The context whose bytes the next sample corrects: NVML's figure for this process could not be used at its
// creation.
std::atomic<std::uint64_t> provisional_contexts[ledger::kMaxDevices];

// Live contexts, with the device memory that each took when it was created.
struct Context {
  std::uint64_t number = 0;  // 0: unused entry
  unsigned device = 0;
  std::int64_t bytes = 0;
};
constexpr std::size_t kMostContexts = 256;  // further ones are not tracked one by one
Context contexts[kMostContexts];
// A green context is a part of its device's primary context. Allocations made in it are freed with the
// primary context.
struct GreenContext {
  std::uint64_t number = 0;   // 0: unused entry
  std::uint64_t context = 0;  // its CUcontext from cuCtxFromGreenCtx; 0: none yet
  unsigned device = 0;
};
GreenContext green_contexts[kMostContexts];
std::atomic<unsigned> green_count{0};
Lock contexts_lock;

// Held around calls that create or destroy a device's primary context. The handle can be reused and the state
// is asked after the call, so no other thread may create the context in between. The mutex is recursive
// because the driver's own calls reach these hooks.
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

std::uint64_t placeholder_number(unsigned device) { return std::uint64_t{1} << 60 | device; }

// Falls back to a placeholder: a green context creates the primary context without a call that returns its
// handle.
std::uint64_t primary_of(unsigned device) {
  const std::uint64_t known = primary_contexts[device];
  return known != 0 ? known : placeholder_number(device);
}

// False: another thread that asked for the same context has added it already.
bool add_context(std::uint64_t number, unsigned device, std::int64_t bytes) {
  const Locked locked(contexts_lock);
  Context* free = nullptr;
  for (Context& context : contexts) {
    if (context.number == number) return false;
    if (context.number == 0 && free == nullptr) free = &context;
  }
  if (free != nullptr) *free = {number, device, bytes};
  return true;
}

std::uint64_t at_least_zero(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes > 0 ? bytes : 0); }

void record_if_changed(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::int64_t before,
                       std::int64_t now) {
  if (at_least_zero(before) != at_least_zero(now)) hook.record_figure(device, kind, at_least_zero(now));
}

// With the last context of a device, the driver frees everything that it had for contexts and modules there.
void remove_context(DriverHook& hook, std::uint64_t number) {
  Context removed;
  bool is_last = true;
  {
    const Locked locked(contexts_lock);
    for (Context& context : contexts) {
      if (context.number != number || number == 0) continue;
      std::swap(removed, context);
      break;
    }
    for (const Context& context : contexts)
      is_last = is_last && (context.number == 0 || context.device != removed.device);
  }
  if (removed.number == 0) return;
  if (!is_last) {
    const std::int64_t before = context_bytes[removed.device].fetch_sub(removed.bytes);
    return record_if_changed(hook, removed.device, DeviceMemoryKind::context, before, before - removed.bytes);
  }
  provisional_contexts[removed.device] = 0;
  record_if_changed(hook, removed.device, DeviceMemoryKind::context,
                    context_bytes[removed.device].exchange(0), 0);
  record_if_changed(hook, removed.device, DeviceMemoryKind::overhead,
                    module_bytes[removed.device].exchange(0), 0);
  record_if_changed(hook, removed.device, DeviceMemoryKind::driver_growth,
                    growth_bytes[removed.device].exchange(0), 0);
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

// Moves a context's entries to a temporary number while the driver destroys it. Another thread may get the
// same handle for a new context before the call returns here.
class ContextDestruction {
 public:
  explicit ContextDestruction(std::uint64_t context)
      : context_(context), number_(device_ledger.begin_destroy(kContext, context)) {
    rename_context(context_, number_);
  }
  void finish(DriverHook& hook) const {
    remove_context(hook, number_);
    Entry dropped;
    ledger::Ledger::Pass pass;
    while (device_ledger.drop_from_context(number_, pass, dropped))
      if (dropped.type == EntryType::capture)
        drop_captured_graph(hook, dropped.link);
      else
        hook.record_release(dropped);
  }
  // The driver did not destroy the context.
  void undo() const {
    rename_context(number_, context_);
    device_ledger.undo_destroy(kContext, number_, context_);
  }
  void finish_or_undo(DriverHook& hook, bool is_destroyed) const {
    if (is_destroyed)
      finish(hook);
    else
      undo();
  }

 private:
  static constexpr auto kContext = ledger::Ledger::Owner::context;
  std::uint64_t context_, number_;
};

// If only green contexts created the primary context, its entries are under the placeholder.
struct PrimaryContextDestruction {
  explicit PrimaryContextDestruction(Device device)
      : known(primary_contexts[device]), of_green(placeholder_number(static_cast<unsigned>(device))) {}
  void finish_or_undo(DriverHook& hook, bool is_destroyed) const {
    known.finish_or_undo(hook, is_destroyed);
    of_green.finish_or_undo(hook, is_destroyed);
  }
  ContextDestruction known, of_green;
};

// Drops the context's entries if its last user released it. Called with the primary lock and after the
// driver's call, because other threads use the context until then if this was not the last release.
void finish_if_destroyed(DriverHook& hook, Device device) {
  unsigned flags = 0;
  int is_primary_active = 1;
  if (device < 0 || device >= static_cast<int>(ledger::kMaxDevices) ||
      real.cuDevicePrimaryCtxGetState == nullptr ||
      real.cuDevicePrimaryCtxGetState(device, &flags, &is_primary_active) != kSuccess ||
      is_primary_active != 0)
    return;
  PrimaryContextDestruction(device).finish_or_undo(hook, true);
}

Result release_primary(Result (*call)(Device), Device device) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const PrimaryLocked locked(device);
  const Result result = call(device);
  if (result == kSuccess && hook.should_track()) finish_if_destroyed(hook, device);
  return result;
}

Result reset_primary(Result (*call)(Device), Device device) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (device < 0 || device >= static_cast<int>(ledger::kMaxDevices) || !hook.should_track())
    return call(device);
  const PrimaryLocked locked(device);
  const PrimaryContextDestruction destruction(device);
  const Result result = call(device);
  destruction.finish_or_undo(hook, result == kSuccess);
  return result;
}

Result destroy_context(Result (*call)(Opaque), Opaque context) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(context);
  const ContextDestruction destruction(number_of(context));
  const Result result = call(context);
  destruction.finish_or_undo(hook, result == kSuccess);
  return result;
}

// The driver counts the users. The context is destroyed when the driver does not accept its handle any more.
Result detach_context(Result (*call)(Opaque), Opaque context) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(context);
  const ContextDestruction destruction(number_of(context));
  const Result result = call(context);
  unsigned version = 0;
  destruction.finish_or_undo(hook, result == kSuccess && real.cuCtxGetApiVersion != nullptr &&
                                       real.cuCtxGetApiVersion(context, &version) != kSuccess);
  return result;
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

bool is_primary_active(Device device) {
  unsigned flags = 0;
  int active = 0;
  return real.cuDevicePrimaryCtxGetState != nullptr &&
         real.cuDevicePrimaryCtxGetState(device, &flags, &active) == kSuccess && active != 0;
}

// This process's memory, from NVML, minus everything that is accounted for. False where NVML has no figure,
// or where another driver call may have been running: the driver allocates before or after the ledger knows.
bool measure_unexplained(DriverHook& hook, unsigned device, std::int64_t& bytes) {
  const std::uint64_t ended = driver_calls.ended, begun = driver_calls.begun;
  constexpr std::uint64_t kOwn = 1;
  std::uint64_t used = 0;
  if (begun != ended + kOwn) return false;
  const std::int64_t allocated = hook.allocated_bytes(device);
  if (!hook.used_by_this_process(device, used) || driver_calls.begun != begun) return false;
  bytes = static_cast<std::int64_t>(used) - allocated - module_bytes[device] - context_bytes[device] -
          growth_bytes[device];
  return true;
}

// A context's size is the growth of this process's unexplained memory in NVML. If another driver call
// prevents that, it is the growth of the device's used memory. The next sample corrects it for a device's
// first context. `number()` is called after the context exists.
template <class Call, class Number>
Result create_context(Device ordinal, const Call& call, const Number& number) {
  DriverHook hook;
  const auto device = static_cast<unsigned>(ordinal);
  std::uint64_t before = 0, after = 0;
  if (!hook.should_track() || device >= ledger::kMaxDevices) return call();
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
  if (grown < 0) grown = 0;
  if (const std::uint64_t created = number(); add_context(created, device, grown)) {
    const std::int64_t previous = context_bytes[device].fetch_add(grown);
    record_if_changed(hook, device, DeviceMemoryKind::context, previous, previous + grown);
    if (is_first && !is_exact) provisional_contexts[device] = created;
  }
  watch_device(device);
  return result;
}

template <class Call>
Result create_context(Opaque* context, Device ordinal, const Call& call) {
  return create_context(ordinal, call, [&] {
    return context != nullptr ? number_of(*context) : primary_of(static_cast<unsigned>(ordinal));
  });
}

// Adds memory that is still unexplained to this context. False: the context is gone.
bool correct_context(DriverHook& hook, unsigned device, std::uint64_t number, std::int64_t more) {
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
  const std::int64_t previous = context_bytes[device].fetch_add(more);
  record_if_changed(hook, device, DeviceMemoryKind::context, previous, previous + more);
  return true;
}

// Measures the driver's memory for modules as the change of the device's free memory, minus what other
// threads of this process were charged meanwhile.
template <class Call>
Result measure_module_change(const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  std::size_t before = 0, after = 0, total = 0;
  // On an integrated GPU, free memory is the machine's and changes with every other program.
  if (!hook.should_track() || !hook.records() || !hook.get_current(where) ||
      where.device >= ledger::kMaxDevices ||
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

void release_retained_primary(DriverHook& hook, Device device) {
  const PrimaryLocked locked(device);
  if (real.cuDevicePrimaryCtxRelease_v2 != nullptr && real.cuDevicePrimaryCtxRelease_v2(device) == kSuccess)
    finish_if_destroyed(hook, device);
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

void update_driver_growth(DriverHook& hook, unsigned device) {
  std::int64_t more = 0;
  if (!has_context(device) || !measure_unexplained(hook, device, more)) return;
  const std::uint64_t context = provisional_contexts[device].exchange(0);
  if (context != 0 && correct_context(hook, device, context, more)) return;
  const std::int64_t before = growth_bytes[device].fetch_add(more);
  record_if_changed(hook, device, DeviceMemoryKind::driver_growth, before, before + more);
}

// The primary lock is not held while NVML is queried and the watcher thread starts. Both open libraries, and
// a thread that holds the loader's lock may be in this hook, called from a library's constructor.
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
    // Entries of its green contexts, so far under the placeholder, now belong to the primary context.
    if (before == 0) device_ledger.rename_context(placeholder_number(ordinal), number_of(*context));
    return result;
  };
  return is_primary_active(device) ? retain() : create_context(context, device, retain);
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

// A green context keeps its device's primary context alive.
HEADROOM_HOOK Result cuGreenCtxCreate(Opaque* green, Opaque resources, Device device, unsigned flags) {
  const auto call = HEADROOM_REAL(cuGreenCtxCreate);
  if (call == nullptr) return kNotFound;
  const auto create = [&] {
    const PrimaryLocked locked(device);
    return call(green, resources, device, flags);
  };
  const Result result = is_primary_active(device) ? create() : create_context(device, create, [&] {
    return primary_of(static_cast<unsigned>(device));
  });
  DriverHook hook;
  if (result == kSuccess && green != nullptr && hook.should_track())
    add_green_context(number_of(*green), static_cast<unsigned>(device));
  return result;
}
HEADROOM_HOOK Result cuCtxFromGreenCtx(Opaque* context, Opaque green) {
  const auto call = HEADROOM_REAL(cuCtxFromGreenCtx);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(context, green);
  if (result != kSuccess || context == nullptr || !hook.should_track()) return result;
  const Locked locked(contexts_lock);
  for (GreenContext& known : green_contexts)
    if (known.number == number_of(green)) known.context = number_of(*context);
  return result;
}
HEADROOM_HOOK Result cuGreenCtxDestroy(Opaque green) {
  const auto call = HEADROOM_REAL(cuGreenCtxDestroy);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(green);
  const int device = device_of_green_context(number_of(green));
  const PrimaryLocked locked(device);
  const Result result = call(green);
  if (result != kSuccess || device < 0) return result;
  remove_green_context(number_of(green), static_cast<unsigned>(device));
  finish_if_destroyed(hook, device);
  return result;
}

HEADROOM_HOOK Result cuCtxSynchronize() {
  const auto call = HEADROOM_REAL(cuCtxSynchronize);
  if (call == nullptr) return kNotFound;
  if (__builtin_expect(!device_ledger.has_pending_frees_or_unmaps(), 1)) return call();
  DriverHook hook;
  Opaque current = nullptr;
  if (!hook.should_track() || real.cuCtxGetCurrent(&current) != kSuccess) return call();
  return hook.synchronize(current, call);
}
HEADROOM_HOOK Result cuCtxSynchronize_v2(Opaque context) {
  const auto call = HEADROOM_REAL(cuCtxSynchronize_v2);
  if (call == nullptr) return kNotFound;
  if (__builtin_expect(!device_ledger.has_pending_frees_or_unmaps(), 1)) return call(context);
  DriverHook hook;
  return hook.should_track() ? hook.synchronize(context, [&] { return call(context); }) : call(context);
}

HEADROOM_HOOK Result cuCtxCreate(Opaque* context, unsigned flags, Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate);
  if (call == nullptr) return kNotFound;
  return create_context(context, device, [&] { return call(context, flags, device); });
}
HEADROOM_HOOK Result cuCtxCreate_v2(Opaque* context, unsigned flags, Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate_v2);
  if (call == nullptr) return kNotFound;
  return create_context(context, device, [&] { return call(context, flags, device); });
}
HEADROOM_HOOK Result cuCtxCreate_v3(Opaque* context, void* affinity, int count, unsigned flags,
                                    Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate_v3);
  if (call == nullptr) return kNotFound;
  return create_context(context, device, [&] { return call(context, affinity, count, flags, device); });
}
HEADROOM_HOOK Result cuCtxCreate_v4(Opaque* context, void* parameters, unsigned flags, Device device) {
  const auto call = HEADROOM_REAL(cuCtxCreate_v4);
  if (call == nullptr) return kNotFound;
  return create_context(context, device, [&] { return call(context, parameters, flags, device); });
}

HEADROOM_HOOK Result cuModuleLoad(Opaque* module, const char* file) {
  const auto call = HEADROOM_REAL(cuModuleLoad);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] { return call(module, file); });
}
HEADROOM_HOOK Result cuModuleLoadData(Opaque* module, const void* image) {
  const auto call = HEADROOM_REAL(cuModuleLoadData);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] { return call(module, image); });
}
HEADROOM_HOOK Result cuModuleLoadDataEx(Opaque* module, const void* image, unsigned count, void* options,
                                        void** values) {
  const auto call = HEADROOM_REAL(cuModuleLoadDataEx);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] { return call(module, image, count, options, values); });
}
HEADROOM_HOOK Result cuModuleLoadFatBinary(Opaque* module, const void* image) {
  const auto call = HEADROOM_REAL(cuModuleLoadFatBinary);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] { return call(module, image); });
}

HEADROOM_HOOK Result cuModuleUnload(Opaque module) {
  const auto call = HEADROOM_REAL(cuModuleUnload);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] { return call(module); });
}
HEADROOM_HOOK Result cuLibraryLoadData(Opaque* library, const void* code, void* options, void** values,
                                       unsigned count, void* library_options, void** library_values,
                                       unsigned library_count) {
  const auto call = HEADROOM_REAL(cuLibraryLoadData);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] {
    return call(library, code, options, values, count, library_options, library_values, library_count);
  });
}
HEADROOM_HOOK Result cuLibraryLoadFromFile(Opaque* library, const char* file, void* options, void** values,
                                           unsigned count, void* library_options, void** library_values,
                                           unsigned library_count) {
  const auto call = HEADROOM_REAL(cuLibraryLoadFromFile);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] {
    return call(library, file, options, values, count, library_options, library_values, library_count);
  });
}
HEADROOM_HOOK Result cuLibraryUnload(Opaque library) {
  const auto call = HEADROOM_REAL(cuLibraryUnload);
  if (call == nullptr) return kNotFound;
  return measure_module_change([&] { return call(library); });
}

}  // namespace headroom::preload::driver
