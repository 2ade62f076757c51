#include "preload/onnxruntime_profiles.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "preload/call_frame.h"
#include "preload/find_object.h"
#include "preload/memory.h"
#include "preload/onnxruntime_hooks.h"
#include "preload/onnxruntime_options.h"
#include "preload/process.h"
#include "preload/scopes.h"
#include "preload/thread_state.h"

namespace headroom::preload {

Runtime runtimes[kMostRuntimes];

namespace {

constinit thread_local std::uint32_t depth_in_runtime __attribute__((tls_model("initial-exec"))) = 0;

// Work for the profile must not look like the program's. Its scope is nested in the program's current scope,
// which stays open.
class OwnWork {
 public:
  OwnWork() : before_(current_scope()) {
    set_scope(intern_scope(before_, recording::ScopeSource::program, recording::kTracerScope,
                           std::strlen(recording::kTracerScope)));
  }
  ~OwnWork() { set_scope(before_); }
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

 private:
  std::uint32_t before_;
};

bool succeeded(const Runtime& runtime, ort::Status* status) {
  if (status == nullptr) return true;
  original<ort::ReleaseStatus>(runtime, ort::kReleaseStatus)(status);
  return false;
}

std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void end_profile(const Runtime& runtime, const OpenSession& slot) {
  const InRuntime in_runtime;
  const OwnWork own_work;
  const OwnSystemCalls own_calls;  // the runtime writes the file
  auto* session = static_cast<ort::Session*>(const_cast<void*>(slot.session.load()));
  std::uint64_t started = 0;
  ort::Allocator* allocator = nullptr;
  char* path = nullptr;
  const auto start_time = original<ort::SessionProfilingStartTime>(runtime, ort::kSessionProfilingStartTime);
  if (!succeeded(runtime, start_time(session, &started))) return;
  if (!succeeded(runtime, original<ort::GetDefaultAllocator>(runtime, ort::kGetDefaultAllocator)(&allocator)))
    return;
  const auto end = original<ort::SessionEndProfiling>(runtime, ort::kSessionEndProfiling);
  if (!succeeded(runtime, end(session, allocator, &path)) || path == nullptr) return;
  // The runtime uses the time of day; the recording uses the monotonic clock.
  const std::uint64_t ago = now_ns(CLOCK_REALTIME) - started;
  // An empty path means that the runtime wrote no profile.
  if (*path != 0) add_runtime_profile(path, now_ns(CLOCK_MONOTONIC) - ago, slot.scope, slot.profile);
  succeeded(runtime, original<ort::AllocatorFree>(runtime, ort::kAllocatorFree)(allocator, path));
}

// Call it only after the gate allowed the caller to end the profile.
void end_and_open_gate(OpenSession& slot) {
  end_profile(runtimes[slot.runtime], slot);
  slot.gate.set_ended();
}

// The path prefix for the runtime's profiles: next to the recordings of the process tree.
bool profile_prefix(char* prefix, std::size_t size) {
  // Not from the environment: another thread of the program may be changing it.
  const char* const recording = process.path;
  static std::atomic<unsigned> number{0};
  const int length = std::snprintf(prefix, size, "%s.d/onnxruntime-%d-%u", recording, ::getpid(), number++);
  if (*recording == 0 || length < 0 || static_cast<std::size_t>(length) >= size) return false;
  char* const slash = std::strrchr(prefix, '/');
  *slash = 0;
  ::mkdir(prefix, 0777);
  *slash = '/';
  return true;
}

void note(const char* sentence) {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread)) return;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  if (!recording_is_ours()) start_recording_in_child(thread);
  process.file.note(sentence);
}

void note_that_program_profiles() {
  static std::atomic<bool> noted{false};
  if (noted.exchange(true)) return;
  note("the program profiles an ONNX Runtime session itself, so this recording has no nodes of that session");
}

void note_profile_timeout(const OpenSession& slot) {
  char sentence[512];
  std::snprintf(sentence, sizeof sentence,
                "a run of %s did not end in time, so the runtime kept profiling until a moment without runs",
                slot.name);
  note(sentence);
}

// A program may have unloaded a runtime without releasing its sessions.
bool is_loaded(const Runtime& runtime) {
  FoundObject found{};
  const auto address = reinterpret_cast<std::uint64_t>(runtime.original[ort::kSessionEndProfiling]);
  return !has_find_object() || find_object(address, found);
}

void end_open_profiles(std::uint64_t wait_ns) {
  std::size_t count = 0;
  OpenSession* slots = all_sessions(count);
  for (std::size_t i = 0; i < count; ++i) {
    OpenSession& slot = slots[i];
    if (slot.session.load() == nullptr || !slot.gate.is_profiled() || !is_loaded(runtimes[slot.runtime]))
      continue;
    // A thread that ends the process during a run would wait for itself.
    if (slot.gate.close(depth_in_runtime == 0 ? wait_ns : 0)) end_and_open_gate(slot);
  }
}

// How long to wait at exit for runs in other threads.
constexpr std::uint64_t kWaitAtExit = 1'000'000'000;

}  // namespace

InRuntime::InRuntime() { ++depth_in_runtime; }
InRuntime::~InRuntime() { --depth_in_runtime; }

ort::SessionOptions* options_with_profile(const Runtime& runtime, const ort::SessionOptions* options) {
  const OwnWork own_work;
  if (is_profiled_by_program(options)) {
    note_that_program_profiles();
    return nullptr;
  }
  char prefix[4096];
  if (!profile_prefix(prefix, sizeof prefix)) return nullptr;
  ort::SessionOptions* changed = nullptr;
  ort::Status* status =
      options != nullptr
          ? original<ort::CloneSessionOptions>(runtime, ort::kCloneSessionOptions)(options, &changed)
          : original<ort::CreateSessionOptions>(runtime, ort::kCreateSessionOptions)(&changed);
  if (!succeeded(runtime, status)) return nullptr;
  if (succeeded(runtime, original<ort::EnableProfiling>(runtime, ort::kEnableProfiling)(changed, prefix)))
    return changed;
  original<ort::ReleaseSessionOptions>(runtime, ort::kReleaseSessionOptions)(changed);
  return nullptr;
}

void begin_profile(OpenSession& slot, const void* session, int runtime, std::uint32_t scope, bool profiled) {
  static std::atomic<std::uint32_t> number{0};
  slot.profile = profiled ? ++number : 0;
  if (profiled) add_open_profile(scope, slot.profile);
  open_session(&slot, session, runtime, scope, profiled);
}

bool begin_run(OpenSession& slot, std::uint64_t& start_ns) {
  if (!slot.gate.is_profiled()) return false;
  const ProfileGate::Entry entry = slot.gate.enter(depth_in_runtime > 1);
  if (entry == ProfileGate::Entry::unprofiled) return false;
  if (entry == ProfileGate::Entry::gave_up_first) note_profile_timeout(slot);
  start_ns = now_ns(CLOCK_MONOTONIC);
  return true;
}

void end_run(OpenSession& slot, std::uint64_t start_ns) {
  if (slot.gate.leave(now_ns(CLOCK_MONOTONIC) - start_ns)) end_and_open_gate(slot);
}

ProfiledRun::ProfiledRun(OpenSession& slot) : slot_(slot), is_profiled_(begin_run(slot, start_ns_)) {}

ProfiledRun::~ProfiledRun() {
  if (is_profiled_) end_run(slot_, start_ns_);
}

void end_profile_for_release(OpenSession& slot) {
  if (slot.gate.close_for_release()) end_and_open_gate(slot);
}

void end_profiles_at_exit() { end_open_profiles(kWaitAtExit); }

void end_profiles_before_death(const CallFrame& caller, ProcessEnd end) {
  ThreadLocal& thread = thread_local_state;
  std::size_t count = 0;
  all_sessions(count);
  if (count == 0 || thread.is_busy() || depth_in_runtime != 0) return;
  {
    const Guard guard(thread);
    // The interrupted code may hold locks that the runtime needs.
    if (may_be_in_signal_handler(caller, stack_bounds_of_this_thread())) return;
  }
  end_open_profiles(end == ProcessEnd::at_once ? kWaitAtExit : 0);
}

}  // namespace headroom::preload
