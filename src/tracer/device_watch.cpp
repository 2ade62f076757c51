#include "tracer/device_watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

#include "tracer/device_hooks.h"
#include "tracer/lock.h"

namespace headroom::tracer {
namespace {

constexpr std::int64_t kFirstNs = 100'000'000, kIntervalNs = 1'000'000'000;

struct Watch {
  Lock lock;
  pid_t of_process = 0;                   // that has the thread: a child after fork has none
  std::atomic<std::uint64_t> devices{0};  // a bit each
  pthread_t thread{};
  pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t stop_sign{};
  bool is_to_stop = false;
};
static_assert(ledger::kMostDevices <= 64);
constinit Watch watch;

timespec in(std::int64_t nanoseconds, clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  const std::int64_t of_second = time.tv_nsec + nanoseconds;
  time.tv_sec += of_second / 1'000'000'000;
  time.tv_nsec = of_second % 1'000'000'000;
  return time;
}

// False: the process ends.
bool wait_for(std::int64_t nanoseconds) {
  const timespec until = in(nanoseconds, CLOCK_MONOTONIC);
  pthread_mutex_lock(&watch.stop_lock);
  while (!watch.is_to_stop && pthread_cond_timedwait(&watch.stop_sign, &watch.stop_lock, &until) == 0) {
  }
  const bool goes_on = !watch.is_to_stop;
  pthread_mutex_unlock(&watch.stop_lock);
  return goes_on;
}

void look_at_all() {
  for (unsigned device = 0; device < ledger::kMostDevices; ++device) {
    if ((watch.devices.load(std::memory_order_relaxed) >> device & 1) == 0) continue;
    DriverHook hook;
    if (!try_driver_order()) continue;  // the next time
    hook.look_at_launched_graphs(device);
    end_driver_order();
    driver::look_at_driver_growth(hook, device);
  }
}

void* run(void*) {
  pthread_setname_np(pthread_self(), "headroom");
  const Guard guard(thread_local_state);  // nothing in this thread is the program's doing
  // Otherwise a capture in another thread could be spoiled by what is asked here.
  int capture_mode = driver::kCaptureRelaxed;
  if (driver::real.cuThreadExchangeStreamCaptureMode != nullptr)
    driver::real.cuThreadExchangeStreamCaptureMode(&capture_mode);
  for (std::int64_t wait = kFirstNs; wait_for(wait); wait = kIntervalNs) look_at_all();
  return nullptr;
}

// Before the driver's own handlers, which were there first: a call while they run would find it half gone. A
// driver that hangs does not hang the end of the process, too.
void stop() {
  if (watch.of_process != getpid()) return;
  pthread_mutex_lock(&watch.stop_lock);
  watch.is_to_stop = true;
  pthread_cond_signal(&watch.stop_sign);
  pthread_mutex_unlock(&watch.stop_lock);
  const timespec until = in(2'000'000'000, CLOCK_REALTIME);
  if (pthread_timedjoin_np(watch.thread, nullptr, &until) != 0) return;
  const Guard guard(thread_local_state);
  look_at_all();  // what came in the last second
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
  const bool is_started = pthread_create(&watch.thread, nullptr, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

}  // namespace

void watch_device(unsigned device) {
  ThreadLocal& thread = thread_local_state;
  if (device >= ledger::kMostDevices || !is_recording(thread)) return;
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

void reset_watch_in_child() {
  watch.lock.reset();
  watch.devices = 0;
}

}  // namespace headroom::tracer
