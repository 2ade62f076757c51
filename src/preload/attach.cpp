// The recorder in a running process. `headroom trace --pid` has the process load this library and call
// headroom_trace_attach(); trace/attach.cpp is the other side. These functions run in one of the program's
// threads, which stands at a place where it holds no lock of the C library or the loader.
//
// The end has two steps. headroom_trace_detach() restores the redirected calls and closes the recording while
// the program runs. headroom_trace_release() then returns the recorder's memory: the other side stops all
// threads, and looks at headroom_trace_guard in each of them, so no thread is inside a hook. The library
// stays loaded. A later recording uses it again.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "preload/attach_redirect.h"
#include "preload/clock.h"
#include "preload/fast_path.h"
#include "preload/memory.h"
#include "preload/modules.h"
#include "preload/process.h"
#include "preload/real_functions.h"
#include "preload/recording_start.h"
#include "preload/threads.h"

namespace headroom::preload {

const bool kHasHostHooks = true;
const bool kIsAttached = true;

namespace {

// trace/attach.cpp has the same numbers.
enum State : int { kIdle = 0, kRecording = 1, kDetached = 2 };
enum Answer : int { kDone = 0, kAlreadyRecording = 1, kCannotRecord = 2 };

Lock attach_lock;
// The other side locks the recording once it has been told that recording began.
std::atomic<bool> was_locked{false};

std::uint64_t resident_bytes() {
  char text[128] = {};
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  const char* const second = size > 0 ? std::strchr(text, ' ') : nullptr;
  return second != nullptr
             ? std::strtoull(second, nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))
             : 0;
}

void end_in_process();

void end_if_abandoned() {
  const OwnSystemCalls own_calls;
  if (process.file.is_locked()) {
    was_locked = true;
  } else if (was_locked) {
    end_in_process();
  }
}

void leave_in_child() {
  process.end_if_abandoned = nullptr;
  process.leave_in_child = nullptr;
  attach_lock.reset();
  set_scan_handler(nullptr);
  restore_calls_in_child();
}

}  // namespace
}  // namespace headroom::preload

using namespace headroom::preload;

extern "C" {

// What the other side reads in the process's memory.
HEADROOM_HOOK std::atomic<int> headroom_trace_state;
std::atomic<int> headroom_trace_state{kIdle};
// The place of a thread's guard, in bytes from its thread pointer; 0: not known yet.
HEADROOM_HOOK std::atomic<std::ptrdiff_t> headroom_trace_guard;
std::atomic<std::ptrdiff_t> headroom_trace_guard{0};
}

namespace headroom::preload {
namespace {

void end_in_process() {
  if (!attach_lock.try_lock()) return;
  if (headroom_trace_state == kRecording) {
    process.end_if_abandoned = nullptr;
    set_scan_handler(nullptr);
    restore_calls();
    process.leave_in_child = nullptr;
    stop_recording();
    headroom_trace_state = kDetached;
  }
  attach_lock.unlock();
}

}  // namespace
}  // namespace headroom::preload

HEADROOM_HOOK int headroom_trace_attach(const char* file, const char* settings) {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  headroom_trace_guard =
      reinterpret_cast<char*>(&thread.guard) - static_cast<char*>(__builtin_thread_pointer());
  if (headroom_trace_state != kIdle || !attach_lock.try_lock()) return kAlreadyRecording;
  const std::uint64_t resident = resident_bytes();
  Options options = parse_options(settings);
  options.host = true;
  options.attached = true;
  was_locked = false;
  const bool is_recording = resolve_allocator() && start_recording_to(thread, file, options);
  if (is_recording) {
    const std::uint64_t start = process_start_ns();
    const headroom::recording::AttachRecord record{start != 0 ? monotonic_ns() - start : 0, resident};
    process.file.write_metadata(headroom::recording::MetadataKind::attached, 0, {&record, sizeof record});
    process.end_if_abandoned = end_if_abandoned;
    process.leave_in_child = leave_in_child;
    // This thread may do what the loader does not allow in the middle of its work, so nothing is loading.
    start_redirecting();
    redirect_calls(LoaderState::done);
    set_scan_handler(redirect_calls);
    headroom_trace_state = kRecording;
  }
  attach_lock.unlock();
  return is_recording ? kDone : kCannotRecord;
}

HEADROOM_HOOK int headroom_trace_detach() {
  const Guard guard(thread_local_state);
  const OwnSystemCalls own_calls;
  end_in_process();
  return kDone;
}

HEADROOM_HOOK int headroom_trace_release() {
  const Guard guard(thread_local_state);
  const OwnSystemCalls own_calls;
  if (headroom_trace_state != kDetached) return kAlreadyRecording;
  release_recording();
  headroom_trace_state = kIdle;
  return kDone;
}
