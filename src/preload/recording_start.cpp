#include "preload/recording_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "preload/clock.h"
#include "preload/fast_path.h"
#include "preload/loaded_objects.h"
#include "preload/memory.h"
#include "preload/modules.h"
#include "preload/real_functions.h"
#include "preload/scopes.h"
#include "preload/threads.h"

namespace headroom::preload {

namespace {

// A failed exec ends the recording and then resumes it. A program that retries without end would fill the
// metadata area with end records.
constexpr std::uint32_t kMostEnds = 64;
std::atomic<std::uint32_t> ends_written{0};

void write_text(recording::MetadataKind kind, const char* text, ssize_t length) {
  if (length > 0) process.file.write_metadata(kind, 0, {text, static_cast<std::size_t>(length)});
}

void write_command() {
  static char text[64 << 10];  // longer command lines are truncated
  const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t length = 0, size = 0;
  while (length < static_cast<ssize_t>(sizeof text) &&
         (size = ::read(fd, text + length, sizeof text - static_cast<std::size_t>(length))) > 0)
    length += size;
  ::close(fd);
  write_text(recording::MetadataKind::command, text, length);
}

void describe_process() {
  char path[PATH_MAX];
  write_command();
  write_text(recording::MetadataKind::executable, path, ::readlink("/proc/self/exe", path, sizeof path));
  if (::getcwd(path, sizeof path) != nullptr)
    write_text(recording::MetadataKind::folder, path, static_cast<ssize_t>(std::strlen(path)));
  utsname host{};
  if (::uname(&host) != 0) return;
  const RecordingFile::Piece pieces[] = {{host.sysname, std::strlen(host.sysname) + 1},
                                         {host.release, std::strlen(host.release) + 1},
                                         {host.machine, std::strlen(host.machine)}};
  process.file.write_metadata(recording::MetadataKind::host, 0, pieces, 3);
}

// Leaves the phase as recording or disabled.
void open_recording() {
  process.phase.store(Phase::disabled, std::memory_order_release);
  if (process.options.host && !process.options.full && !process.recorded.create()) return;
  process.large_bytes = process.options.full ? 0 : process.options.large_bytes;
  process.events_left = process.options.events;
  ends_written = 0;
  if (!process.file.create(process.path, process.options)) return;
  describe_process();
  if (process.is_forked_child)
    rewrite_modules();
  else
    refresh_modules();
  rewrite_scopes();
  process.file.calibrate();
  process.fork_mark->store(Process::kOurs, std::memory_order_release);
  process.phase.store(Phase::recording, std::memory_order_release);
  open_fast_path();
}

// Linux before 4.14 does not zero the pages at fork, so this does. Fork handlers that other libraries
// registered earlier may have allocated already; on such a system their events may be lost.
void after_fork_in_child() {
  close_fast_path();
  if (process.fork_mark->load() != Process::kOurs) return;
  wipe_threads();
  process.fork_mark->store(Process::kForked);
}

// A page that reads as 0 in a forked child.
std::atomic<std::uint32_t>* create_fork_mark() {
  auto* mark = reserve_array<std::atomic<std::uint32_t>>(1);
  if (mark != nullptr) wipe_on_fork(mark, 4096);
  return mark;
}

// Called in phase `starting`.
bool open_first(const char* path, const Options& options) {
  process.options = options;
  process.has_device_limit = options.device_limits.any();  // in force even without a recording
  // Reserved before the program can use up its address space limit.
  if (process.has_device_limit) process.spare_account = reserve_memory(ledger::Account::kPageBytes);
  const bool is_usable = path != nullptr && *path == '/' && std::strlen(path) < sizeof process.path;
  if (is_usable && process.fork_mark == nullptr) {
    process.fork_mark = create_fork_mark();
    if (process.fork_mark != nullptr) pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }
  if (!is_usable || process.fork_mark == nullptr) {
    process.phase.store(Phase::disabled, std::memory_order_release);
    return false;
  }
  std::memcpy(process.path, path, std::strlen(path) + 1);
  choose_clock();
  has_find_object();  // resolved now, because a child must not
  prepare_fast_path();
  open_recording();
  return process.phase.load() == Phase::recording;
}

}  // namespace

[[gnu::noinline, gnu::cold]] bool start_recording(ThreadLocal& thread) {
  // The dynamic linker allocates before the C library has set the environment.
  if (environ == nullptr) return false;
  Phase phase = Phase::idle;
  if (!process.phase.compare_exchange_strong(phase, Phase::starting)) return phase == Phase::recording;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  Options options = parse_options(std::getenv("HEADROOM_TRACE_OPTIONS"));
  options.host = kHasHostHooks;
  const bool has_file = !options.ledger && !kIsAttached;
  return open_first(has_file ? std::getenv("HEADROOM_TRACE_FILE") : nullptr, options);
}

bool start_recording_to(ThreadLocal& thread, const char* path, const Options& options) {
  Phase phase = process.phase.load();
  if (phase != Phase::idle && phase != Phase::disabled) return false;
  if (!process.phase.compare_exchange_strong(phase, Phase::starting)) return false;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  return open_first(path, options);
}

void start_recording_in_child(ThreadLocal& thread) {
  std::uint32_t mark = Process::kForked;
  if (process.fork_mark == nullptr ||
      !process.fork_mark->compare_exchange_strong(mark, Process::kChildStarts))
    return;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  close_fast_path();
  process.phase.store(Phase::starting);
  process.file.abandon();
  reset_threads();
  process_clock.wait = Clock::Wait::none;
  process.is_forked_child = true;
  reset_modules();
  reset_scope_lock();
  thread.state = nullptr;
  thread.number = 0;
  thread.name_is_written = false;
  thread.has_ended = false;
  if (process.leave_in_child == nullptr) return open_recording();
  process.phase.store(Phase::disabled, std::memory_order_release);
  process.leave_in_child();
}

void finish_recording() {
  // A child of vfork runs in its parent's memory, but must not close the parent's recording.
  if (!recording_is_ours() || process.file.header()->pid != ::getpid()) return;
  const OwnSystemCalls own_calls;
  refresh_modules();
  process.file.calibrate();
  if (ends_written.load() < kMostEnds) {
    seal_open_segments();
    if (process.file.write_end()) ends_written.fetch_add(1);
  }
  const bool is_sealed = ends_written.load() > 0;
  process.file.header()->flags.fetch_or(recording::kFlagClosed | (is_sealed ? recording::kFlagSealed : 0u));
}

void stop_recording() {
  if (process.phase.load(std::memory_order_acquire) != Phase::recording) return;
  process.phase.store(Phase::disabled, std::memory_order_release);
  close_fast_path();
  finish_recording();
}

void release_recording() {
  release_threads();
  process.file.abandon();
  process.recorded.clear();
  process_clock.wait = Clock::Wait::none;
  process.is_forked_child = false;
  forget_known_modules();
}

bool try_finish_recording() {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || process.phase.load(std::memory_order_acquire) != Phase::recording) return false;
  const Guard guard(thread);
  finish_recording();
  return recording_is_ours() && process.file.header()->pid == ::getpid();
}

void resume_recording() {
  process.file.header()->flags.fetch_and(~std::uint32_t{recording::kFlagClosed | recording::kFlagSealed});
}

}  // namespace headroom::preload
