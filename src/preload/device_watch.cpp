#include "preload/device_watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>

#include "ledger/account.h"
#include "preload/driver_calls.h"
#include "preload/process.h"
#include "preload/recorder.h"
#include "types/lock.h"

namespace headroom::preload {
namespace {

// Reading graph memory takes about a microsecond, an NVML query a millisecond.
constexpr std::int64_t kFirstNs = 100'000'000, kIntervalNs = 1'000'000'000, kGraphsNs = 10'000'000;

struct Watch {
  Lock lock;
  std::atomic<pid_t> owner_pid{0};        // process that runs the thread; a forked child has none
  std::atomic<std::uint64_t> devices{0};  // one bit per device
  SampleDevice sample = nullptr;          // set before the thread starts
  pthread_t thread{};
  pthread_mutex_t stop_mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t stop_condition{};
  bool has_thread = false, stop_requested = false, has_graphs = false;
};
static_assert(ledger::kMaxDevices <= 64);
constinit Watch watch;

std::int64_t signed_now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
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
    if ((devices >> device & 1) != 0) watch.sample(device, with_growth);
}

void* run(void*) {
  pthread_setname_np(pthread_self(), "headroom");
  const Guard guard(thread_local_state);  // allocations of this thread are not the program's
  // In any other mode, the calls of this thread could invalidate a capture in another thread.
  int capture_mode = driver::kCaptureRelaxed;
  if (driver::real.cuThreadExchangeStreamCaptureMode != nullptr)
    driver::real.cuThreadExchangeStreamCaptureMode(&capture_mode);
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
  if (::dladdr(reinterpret_cast<void*>(driver::real.cuCtxGetCurrent), &driver) != 0 &&
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

void watch_device(unsigned device, SampleDevice sample) {
  ThreadLocal& thread = thread_local_state;
  if (device >= ledger::kMaxDevices || !is_recording(thread)) return;
  const Guard guard(thread);
  watch.devices.fetch_or(std::uint64_t{1} << device);
  pin_driver();  // before locking, because it takes the loader's lock
  const Locked locked(watch.lock);
  if (watch.owner_pid == getpid()) return;
  const bool is_first = watch.owner_pid == 0;
  watch.owner_pid = getpid();
  watch.sample = sample;
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
}

}  // namespace headroom::preload
