#include "tracer/device_watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>

#include "tracer/device_hooks.h"
#include "tracer/lock.h"

namespace headroom::tracer {
namespace {

// To ask for the memory of graphs takes a microsecond or so, for what NVML tells a millisecond.
constexpr std::int64_t kFirstNs = 100'000'000, kIntervalNs = 1'000'000'000, kGraphsNs = 10'000'000;

struct Watch {
  Lock lock;
  std::atomic<pid_t> of_process{0};       // that has the thread: a child after fork has none
  std::atomic<std::uint64_t> devices{0};  // a bit each
  pthread_t thread{};
  pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t stop_sign{};
  bool has_thread = false, is_to_stop = false, has_graphs = false;
};
static_assert(ledger::kMaxDevices <= 64);
constinit Watch watch;

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
timespec moment(std::int64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
}

// Until `next_ns`, or until graphs are to be looked at again. False: the process ends.
bool wait(std::int64_t next_ns) {
  pthread_mutex_lock(&watch.stop_lock);
  const std::int64_t start_ns = now_ns(CLOCK_MONOTONIC);
  const auto wait_until_ns = [&] {
    return watch.has_graphs ? std::min(next_ns, start_ns + kGraphsNs) : next_ns;
  };
  timespec until = moment(wait_until_ns());
  while (!watch.is_to_stop && pthread_cond_timedwait(&watch.stop_sign, &watch.stop_lock, &until) == 0)
    until = moment(wait_until_ns());
  const bool goes_on = !watch.is_to_stop;
  pthread_mutex_unlock(&watch.stop_lock);
  return goes_on;
}

void look_at_all(bool at_growth_too) {
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device) {
    if ((watch.devices.load(std::memory_order_relaxed) >> device & 1) == 0) continue;
    // A context's figure is by difference where other calls came in between: those are not to be this one.
    const bool is_busy = driver_calls.begun != driver_calls.ended;
    if (!at_growth_too && (is_busy || !DriverHook::may_have_launched_graphs(device))) continue;
    DriverHook hook;
    if (!try_driver_order()) continue;  // the next time
    hook.look_at_launched_graphs(device);
    end_driver_order();
    if (at_growth_too) driver::look_at_driver_growth(hook, device);
  }
}

void* run(void*) {
  pthread_setname_np(pthread_self(), "headroom");
  const Guard guard(thread_local_state);  // nothing in this thread is the program's doing
  // Otherwise a capture in another thread could be spoiled by what is asked here.
  int capture_mode = driver::kCaptureRelaxed;
  if (driver::real.cuThreadExchangeStreamCaptureMode != nullptr)
    driver::real.cuThreadExchangeStreamCaptureMode(&capture_mode);
  std::int64_t next_ns = now_ns(CLOCK_MONOTONIC) + kFirstNs;
  while (wait(next_ns)) {
    const std::int64_t now = now_ns(CLOCK_MONOTONIC);
    look_at_all(now >= next_ns);
    if (now >= next_ns) next_ns = now_ns(CLOCK_MONOTONIC) + kIntervalNs;
  }
  return nullptr;
}

// Before the driver's own handlers, which were there first: a call while they run would find it half gone. A
// driver that hangs does not hang the end of the process, too.
void stop() {
  if (watch.of_process != getpid() || !watch.has_thread) return;
  pthread_mutex_lock(&watch.stop_lock);
  watch.is_to_stop = true;
  pthread_cond_signal(&watch.stop_sign);
  pthread_mutex_unlock(&watch.stop_lock);
  const timespec until = moment(now_ns(CLOCK_REALTIME) + 2'000'000'000);
  if (pthread_timedjoin_np(watch.thread, nullptr, &until) != 0) return;
  const Guard guard(thread_local_state);
  look_at_all(true);  // what came in the last second
}

// A program that closes the driver would leave the thread with functions that are gone.
void keep_driver() {
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

void watch_device(unsigned device) {
  ThreadLocal& thread = thread_local_state;
  if (device >= ledger::kMaxDevices || !is_recording(thread)) return;
  const Guard guard(thread);
  watch.devices.fetch_or(std::uint64_t{1} << device);
  keep_driver();  // before the lock: it takes the loader's
  const Locked locked(watch.lock);
  if (watch.of_process == getpid()) return;
  const bool is_first = watch.of_process == 0;
  watch.of_process = getpid();
  watch.stop_lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&watch.stop_sign, &attributes);
  pthread_condattr_destroy(&attributes);
  if (!start())
    return process.file.note(
        "no thread could be started: what the driver takes for itself after a context was made is not told");
  if (is_first) std::atexit(stop);
}

void watch_graphs() {
  const Guard guard(thread_local_state);
  const Locked locked(watch.lock);
  if (watch.of_process != getpid()) return;
  pthread_mutex_lock(&watch.stop_lock);
  watch.has_graphs = true;
  pthread_cond_signal(&watch.stop_sign);
  pthread_mutex_unlock(&watch.stop_lock);
}

void reset_watch_in_child() {
  watch.lock.reset();
  watch.devices = 0;
  watch.has_thread = watch.is_to_stop = watch.has_graphs = false;
}

}  // namespace headroom::tracer
