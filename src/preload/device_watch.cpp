// The driver's own memory, which it takes for contexts, modules, stacks and streams.
//
// Memory for contexts and modules is measured as a difference before and after the call. For contexts the
// figures come from NVML, because nothing else answers before the first context exists. Other processes may
// allocate on the device meanwhile. The contexts' figure changes only when a context is created or destroyed.
// The first context of a device may be corrected once, soon after its creation.
//
// The driver takes more memory at times that no call reports: for stacks, for streams, and for a module that
// the first launch of its kernel loads. Graphs get memory at launch. A thread samples that, where NVML
// reports this process's memory: once a second, and graph memory every 10 ms from the first graph with memory
// on. The recording gets the samples as figures.
//
// With PyTorch on an H200 the driver takes 610 MiB at the first launch. It takes 12 MiB more when a
// convolution network has run, and 70 MiB for another stream. A graph's memory comes with its first launch
// (benchmarks/results/gpu_ledger.md). Launches are not hooked, so that they cost nothing; a hook there would
// not see half of this memory anyway.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>

#include "preload/clock.h"
#include "preload/device_hooks.h"
#include "types/lock.h"

namespace headroom::preload::driver {
namespace {

std::atomic<std::int64_t> context_bytes[ledger::kMaxDevices], module_bytes[ledger::kMaxDevices],
    growth_bytes[ledger::kMaxDevices];
// The context whose bytes the next sample corrects: NVML's figure for this process could not be used at its
// creation.
std::atomic<std::uint64_t> provisional_contexts[ledger::kMaxDevices];

std::uint64_t at_least_zero(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes > 0 ? bytes : 0); }

void record_if_changed(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::int64_t before,
                       std::int64_t now) {
  if (at_least_zero(before) != at_least_zero(now)) hook.record_figure(device, kind, at_least_zero(now));
}

void add_bytes(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::atomic<std::int64_t>& figure,
               std::int64_t more) {
  const std::int64_t before = figure.fetch_add(more);
  record_if_changed(hook, device, kind, before, before + more);
}

void clear(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::atomic<std::int64_t>& figure) {
  record_if_changed(hook, device, kind, figure.exchange(0), 0);
}

void update_driver_growth(DriverHook& hook, unsigned device) {
  std::int64_t more = 0;
  if (!has_context(device) || !measure_unexplained(hook, device, more)) return;
  const std::uint64_t context = provisional_contexts[device].exchange(0);
  if (context != 0 && add_to_context(context, more))
    add_bytes(hook, device, DeviceMemoryKind::context, context_bytes[device], more);
  else
    add_bytes(hook, device, DeviceMemoryKind::driver_growth, growth_bytes[device], more);
}

// Updates graph memory and, with `with_growth`, the driver's growth: NVML's figure for this process, minus
// its allocations, its modules and its contexts' size at creation.
void sample_device(unsigned device, bool with_growth) {
  // A context's size is measured as a difference, which is only exact while no other driver call runs. So the
  // sampling thread makes no calls while a hook is active.
  const bool is_busy = driver_calls.begun != driver_calls.ended;
  if (!with_growth && (is_busy || !DriverHook::may_have_launched_graphs(device))) return;
  DriverHook hook;
  if (!driver_lock.try_lock()) return;  // try again at the next sample
  hook.update_launched_graph_charge(device);
  driver_lock.unlock();
  if (with_growth) update_driver_growth(hook, device);
}

// Reading graph memory takes about a microsecond, an NVML query a millisecond.
constexpr std::int64_t kFirstNs = 100'000'000, kIntervalNs = 1'000'000'000, kGraphsNs = 10'000'000;

struct Watch {
  Lock lock;
  std::atomic<pid_t> owner_pid{0};        // process that runs the thread; a forked child has none
  std::atomic<std::uint64_t> devices{0};  // one bit per device
  pthread_t thread{};
  pthread_mutex_t stop_mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t stop_condition{};
  bool has_thread = false, stop_requested = false, has_graphs = false;
};
static_assert(ledger::kMaxDevices <= 64);
constinit Watch watch;

std::int64_t signed_now_ns(clockid_t clock) { return static_cast<std::int64_t>(clock_ns(clock)); }
timespec to_timespec(std::int64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
}

// Waits until `next_ns`, or until the next sample of graph memory. False: the process ends.
bool wait(std::int64_t next_ns) {
  pthread_mutex_lock(&watch.stop_mutex);
  const std::int64_t start_ns = signed_now_ns(CLOCK_MONOTONIC);
  const auto wait_until_ns = [&] {
    return watch.has_graphs ? std::min(next_ns, start_ns + kGraphsNs) : next_ns;
  };
  timespec until = to_timespec(wait_until_ns());
  while (!watch.stop_requested &&
         pthread_cond_timedwait(&watch.stop_condition, &watch.stop_mutex, &until) == 0)
    until = to_timespec(wait_until_ns());
  const bool should_continue = !watch.stop_requested;
  pthread_mutex_unlock(&watch.stop_mutex);
  return should_continue;
}

void sample_devices(bool with_growth) {
  const std::uint64_t devices = watch.devices.load(std::memory_order_relaxed);
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if ((devices >> device & 1) != 0) sample_device(device, with_growth);
}

void* run(void*) {
  pthread_setname_np(pthread_self(), "headroom");
  const Guard guard(thread_local_state);  // allocations of this thread are not the program's
  // In any other mode, the calls of this thread could invalidate a capture in another thread.
  int capture_mode = kCaptureRelaxed;
  real.cuThreadExchangeStreamCaptureMode(&capture_mode);
  std::int64_t next_ns = signed_now_ns(CLOCK_MONOTONIC) + kFirstNs;
  while (wait(next_ns)) {
    const std::int64_t now = signed_now_ns(CLOCK_MONOTONIC);
    sample_devices(now >= next_ns);
    if (now >= next_ns) next_ns = signed_now_ns(CLOCK_MONOTONIC) + kIntervalNs;
  }
  return nullptr;
}

// Runs before the driver's exit handlers, which were registered earlier: a call while they run would find the
// driver half destroyed. The wait has a timeout, so that a hanging driver does not hang the process's exit.
void stop() {
  if (watch.owner_pid != getpid() || !watch.has_thread) return;
  pthread_mutex_lock(&watch.stop_mutex);
  watch.stop_requested = true;
  pthread_cond_signal(&watch.stop_condition);
  pthread_mutex_unlock(&watch.stop_mutex);
  const timespec until = to_timespec(signed_now_ns(CLOCK_REALTIME) + 2'000'000'000);
  if (pthread_timedjoin_np(watch.thread, nullptr, &until) != 0) return;
  const Guard guard(thread_local_state);
  sample_devices(true);  // changes of the last second
}

// If the program closed the driver, the thread would call functions that are unloaded.
void pin_driver() {
  Dl_info driver{};
  if (::dladdr(reinterpret_cast<void*>(real.cuCtxGetCurrent.pointer), &driver) != 0 &&
      driver.dli_fname != nullptr)
    next_dlopen.get()(driver.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

bool start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watch.has_thread = pthread_create(&watch.thread, nullptr, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return watch.has_thread;
}

}  // namespace

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

void count_context(DriverHook& hook, unsigned device, std::uint64_t number, std::int64_t bytes,
                   bool is_provisional) {
  if (!add_context(number, device, bytes)) return;
  add_bytes(hook, device, DeviceMemoryKind::context, context_bytes[device], bytes);
  if (is_provisional) provisional_contexts[device] = number;
}

void forget_context(DriverHook& hook, std::uint64_t number) {
  const RemovedContext removed = remove_context(number);
  if (!removed.is_known) return;
  const unsigned device = removed.device;
  if (!removed.is_last)
    return add_bytes(hook, device, DeviceMemoryKind::context, context_bytes[device], -removed.bytes);
  provisional_contexts[device] = 0;
  clear(hook, device, DeviceMemoryKind::context, context_bytes[device]);
  clear(hook, device, DeviceMemoryKind::overhead, module_bytes[device]);
  clear(hook, device, DeviceMemoryKind::driver_growth, growth_bytes[device]);
}

void count_modules(DriverHook& hook, unsigned device, std::int64_t grown) {
  if (grown == 0) return;
  const std::int64_t bytes = module_bytes[device].fetch_add(grown) + grown;
  hook.record_figure(device, DeviceMemoryKind::overhead, at_least_zero(bytes));
}

void watch_device(unsigned device) {
  ThreadLocal& thread = thread_local_state;
  if (device >= ledger::kMaxDevices || !is_recording(thread)) return;
  const Guard guard(thread);
  watch.devices.fetch_or(std::uint64_t{1} << device);
  pin_driver();  // before locking, because it takes the loader's lock
  const Locked locked(watch.lock);
  if (watch.owner_pid == getpid()) return;
  const bool is_first = watch.owner_pid == 0;
  watch.owner_pid = getpid();
  watch.stop_mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&watch.stop_condition, &attributes);
  pthread_condattr_destroy(&attributes);
  if (!start())
    return process.file.note(
        "cannot start the thread that samples GPU memory: later memory of the driver itself is not recorded");
  if (is_first) std::atexit(stop);
}

void watch_graphs() {
  const Guard guard(thread_local_state);
  const Locked locked(watch.lock);
  if (watch.owner_pid != getpid()) return;
  pthread_mutex_lock(&watch.stop_mutex);
  watch.has_graphs = true;
  pthread_cond_signal(&watch.stop_condition);
  pthread_mutex_unlock(&watch.stop_mutex);
}

void reset_watch_in_child() {
  watch.lock.reset();
  watch.devices = 0;
  watch.has_thread = watch.stop_requested = watch.has_graphs = false;
  for (auto* const figures : {context_bytes, module_bytes, growth_bytes})
    std::fill_n(figures, ledger::kMaxDevices, 0);
  std::fill_n(provisional_contexts, ledger::kMaxDevices, 0);
}

}  // namespace headroom::preload::driver
