#include "preload/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "preload/clock.h"
#include "preload/fast_path.h"
#include "preload/loaded_objects.h"
#include "preload/memory.h"
#include "preload/modules.h"
#include "preload/scopes.h"
#include "preload/threads.h"

namespace headroom::preload {

namespace {

// Returns false unless the text consists of 1 to 19 digits.
bool to_number(std::string_view text, std::uint64_t& number) {
  if (text.empty() || text.size() > 19) return false;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  number = value;
  return true;
}

// `ordinal`: "" or "3".
void limit_devices(ledger::Limits& limits, std::string_view ordinal, std::uint64_t bytes) {
  std::uint64_t number = 0;
  if (ordinal.empty())
    for (std::uint64_t& limit : limits.bytes) limit = bytes;
  else if (to_number(ordinal, number) && number < ledger::kMaxDevices)
    limits.bytes[number] = bytes;
}

void apply(Options& options, std::string_view key, std::string_view value) {
  std::uint64_t number = 0;
  const bool is_number = to_number(value, number);
  if (key == "ledger" && is_number) options.ledger = number != 0;
  if (key == "full" && is_number) options.full = number != 0;
  if (key == "stacks") {
    if (value == "off") options.stacks = StackMode::off;
    if (value == "fp") options.stacks = StackMode::frame_pointers;
    if (value == "unwind") options.stacks = StackMode::unwind;
  }
  if (key == "layers") options.layers = value != "off";
  if ((key == "ring" || key == "limit") && is_number && number > 0) {
    options.ring = key == "ring";
    options.segments = number;
  }
  constexpr std::string_view kDevice = "device";
  if (key.starts_with(kDevice) && is_number)
    limit_devices(options.device_limits, {key.data() + kDevice.size(), key.size() - kDevice.size()}, number);
  if (key == "proved")
    options.proved = value == "hard"   ? ProvedLimit::hard
                     : value == "soft" ? ProvedLimit::soft
                                       : ProvedLimit::not_tried;
  const bool fits = value.size() < sizeof options.account;
  if (key == "within" && fits && options.outer_account_count < ledger::kMaxAccounts - 1)
    std::memcpy(options.outer_accounts[options.outer_account_count++], value.data(), value.size());
  if (key == "account" && fits) std::memcpy(options.account, value.data(), value.size());
  if (key == "events" && is_number) options.events = number;
  if (key == "large" && is_number) options.large_bytes = number;
  if (key == "period" && is_number && number > 0) options.sample_period = number;
}

}  // namespace

Options parse_options(const char* text) {
  Options options;
  while (text != nullptr && *text != 0) {
    const char* const end = text + std::strcspn(text, ",");
    const char* const equals = text + std::strcspn(text, "=,");
    if (equals < end)
      apply(options, {text, static_cast<std::size_t>(equals - text)},
            {equals + 1, static_cast<std::size_t>(end - equals - 1)});
    text = *end == ',' ? end + 1 : end;
  }
  return options;
}

// Constant-initialised, because allocations come before this library's constructors run.
constinit Process process;

namespace {

// kOurs while the recording belongs to this process. In a child after fork the kernel has zeroed it.
std::atomic<std::uint32_t>* fork_mark = nullptr;
bool is_child = false;
// A failed exec ends the recording and then resumes it. A program that retries without end would fill the
// metadata area with end records.
constexpr std::uint32_t kMostEnds = 64;
std::atomic<std::uint32_t> ends_written{0};
enum Mark : std::uint32_t { kForked = 0, kOurs = 1, kChildStarts = 2 };

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
  if (is_child)
    rewrite_modules();
  else
    refresh_modules();
  rewrite_scopes();
  process.file.calibrate();
  fork_mark->store(kOurs, std::memory_order_release);
  process.phase.store(Phase::recording, std::memory_order_release);
  open_fast_path();
}

// Linux before 4.14 does not zero the pages at fork, so this does. Fork handlers that other libraries
// registered earlier may have allocated already; on such a system their events may be lost.
void after_fork_in_child() {
  close_fast_path();
  if (fork_mark->load() != kOurs) return;
  wipe_threads();
  fork_mark->store(kForked);
}

// Called in phase `starting`.
bool open_first(const char* path, const Options& options) {
  process.options = options;
  process.has_device_limit = options.device_limits.any();  // in force even without a recording
  // Reserved before the program can use up its address space limit.
  if (process.has_device_limit) process.spare_account = reserve_memory(ledger::Account::kPageBytes);
  const bool is_usable = path != nullptr && *path == '/' && std::strlen(path) < sizeof process.path;
  if (is_usable && fork_mark == nullptr) {
    fork_mark = create_fork_mark();
    if (fork_mark != nullptr) pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }
  if (!is_usable || fork_mark == nullptr) {
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
  return open_first(options.ledger ? nullptr : std::getenv("HEADROOM_TRACE_FILE"), options);
}

bool start_recording_to(ThreadLocal& thread, const char* path, const Options& options) {
  Phase phase = process.phase.load();
  if (phase != Phase::idle && phase != Phase::disabled) return false;
  if (!process.phase.compare_exchange_strong(phase, Phase::starting)) return false;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  return open_first(path, options);
}

bool recording_is_ours() {
  return fork_mark != nullptr && fork_mark->load(std::memory_order_acquire) == kOurs;
}

void start_recording_in_child(ThreadLocal& thread) {
  std::uint32_t mark = kForked;
  if (fork_mark == nullptr || !fork_mark->compare_exchange_strong(mark, kChildStarts)) return;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  close_fast_path();
  process.phase.store(Phase::starting);
  process.file.abandon();
  reset_threads();
  process_clock.is_shared = false;
  is_child = true;
  reset_modules();
  reset_scope_lock();
  thread.state = nullptr;
  thread.number = 0;
  thread.name_is_written = false;
  thread.has_ended = false;
  open_recording();
}

bool is_forked_child() { return is_child; }

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
