#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "preload/clock.h"
#include "preload/loaded_objects.h"
#include "preload/memory.h"
#include "preload/onnxruntime_hooks.h"
#include "preload/process.h"
#include "preload/scopes.h"
#include "preload/stack_walk.h"
#include "preload/threads.h"
#include "types/lock.h"

namespace headroom::preload {

namespace {

// Options beyond this number are not remembered; Headroom then profiles their sessions.
constexpr int kMost = 256;
std::atomic<const void*> profiled_by_program[kMost];

}  // namespace

void set_profiled_by_program(const void* options, bool profiled) {
  if (options == nullptr || profiled == is_profiled_by_program(options)) return;
  for (auto& place : profiled_by_program) {
    const void* expected = profiled ? nullptr : options;
    if (place.compare_exchange_strong(expected, profiled ? options : nullptr)) return;
  }
}

bool is_profiled_by_program(const void* options) {
  if (options == nullptr) return false;
  for (const auto& place : profiled_by_program)
    if (place.load(std::memory_order_acquire) == options) return true;
  return false;
}

namespace {

OpenSession slots[kMostSessions];
std::atomic<std::size_t> slots_used{0};  // slots from this one on were never used
const char reserved = 0;                 // a slot that contains its address is being filled

Lock naming;  // locked while a name is chosen

bool name_is_taken(const char* name) {
  for (std::size_t i = 0; i < slots_used.load(); ++i)
    if (slots[i].session.load() != nullptr && std::strcmp(slots[i].name, name) == 0) return true;
  return false;
}

}  // namespace

OpenSession* find_session(const void* session) {
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i)
    if (slots[i].session.load(std::memory_order_acquire) == session) return &slots[i];
  return nullptr;
}

OpenSession* reserve_session(const char* name) {
  const Locked locked(naming);
  for (std::size_t i = 0; i < kMostSessions; ++i) {
    const void* free_slot = nullptr;
    if (!slots[i].session.compare_exchange_strong(free_slot, &reserved)) continue;
    OpenSession& slot = slots[i];
    slot.gate.open(false);
    slot.name[0] = 0;
    char candidate[sizeof slot.name];
    std::snprintf(candidate, sizeof candidate, "%s", name);
    for (unsigned number = 2; name_is_taken(candidate); ++number)
      std::snprintf(candidate, sizeof candidate, "%.100s %u", name, number);
    std::memcpy(slot.name, candidate, sizeof candidate);
    std::size_t used = slots_used.load();
    while (used < i + 1 && !slots_used.compare_exchange_weak(used, i + 1)) {
    }
    return &slot;
  }
  return nullptr;
}

void open_session(OpenSession* slot, const void* session, int runtime, std::uint32_t scope, bool profiled) {
  slot->runtime = runtime;
  slot->scope = scope;
  slot->gate.open(profiled);
  slot->session.store(session, std::memory_order_release);
}

void remove_session(OpenSession* slot) { slot->session.store(nullptr, std::memory_order_release); }

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
  const std::uint64_t ago = clock_ns(CLOCK_REALTIME) - started;
  // An empty path means that the runtime wrote no profile.
  if (*path != 0) add_runtime_profile(path, monotonic_ns() - ago, slot.scope, slot.profile);
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
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
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
  start_ns = monotonic_ns();
  return true;
}

void end_run(OpenSession& slot, std::uint64_t start_ns) {
  if (slot.gate.leave(monotonic_ns() - start_ns)) end_and_open_gate(slot);
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
  if (slots_used.load() == 0 || thread.is_busy() || depth_in_runtime != 0) return;
  {
    const Guard guard(thread);
    // The interrupted code may hold locks that the runtime needs.
    if (may_be_in_signal_handler(caller, stack_bounds_of_this_thread())) return;
  }
  end_open_profiles(end == ProcessEnd::at_once ? kWaitAtExit : 0);
}

}  // namespace headroom::preload
