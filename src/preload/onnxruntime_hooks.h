// Traces ONNX Runtime in unmodified programs: loading a session and each of its runs becomes a scope. The
// runtime's own profile of the first runs is kept, so that the analysis can attribute memory to nodes.
//
// How it works: the ONNX Runtime library returns one table of functions (OrtApi). The tracer finds that table
// whenever the library is loaded (linked, with dlopen, as a dependency) and replaces the functions of
// interest in it. Positions in the table never change between versions, because the table only grows. Not
// supported: a runtime that is compiled into its caller and used without the table (Python's onnxruntime).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/onnxruntime_table.h"
#include "preload/profile_gate.h"
#include "preload/stack_walk.h"

namespace headroom::preload {

// Wraps the table of the ONNX Runtime library whose OrtGetApiBase is at this address. The library must be
// fully linked. A second call does nothing. Returns false if another thread is doing the same; try again
// later. Never waits for a lock, so it may be called inside a hook and in a forked child.
bool hook_onnxruntime(std::uint64_t get_api_base);

// Called when the process is about to end without running its exit handlers: writes the profiles that the
// runtime still keeps. Does nothing inside a signal handler, the runtime or an allocator, where the thread
// may hold locks that the runtime needs. Skips sessions that are running in another thread; at_once waits up
// to a second for them.
enum class ProcessEnd { at_once, by_abort };
void end_profiles_before_death(const CallFrame& caller, ProcessEnd end);

// Remembers the session options in which the program enabled the runtime's profiling. A session has only one
// profile, and that one then belongs to the program. Must be reset before the options are released, because
// their address may be reused.
void set_profiled_by_program(const void* options, bool profiled);
bool is_profiled_by_program(const void* options);

// The ONNX Runtime sessions that the traced program has open: name, run count, and whether the runtime still
// profiles them. Uses fixed memory, and a run takes no lock.
struct OpenSession {
  std::atomic<const void*> session{nullptr};  // null: the slot is free
  char name[128] = {};
  std::uint32_t scope = 0;
  int runtime = 0;            // index of the library copy, if a program loads several
  std::uint32_t profile = 0;  // its number in the recording; 0: not profiled
  ProfileGate gate;
};

// Finds the slot of a known session, or null.
OpenSession* find_session(const void* session);
// Reserves a slot for a session that is about to be loaded; null when kMostSessions are open. Its name
// differs from those of all open sessions: "inference", "inference 2". Afterwards call open_session() or
// remove_session().
OpenSession* reserve_session(const char* name);
void open_session(OpenSession* slot, const void* session, int runtime, std::uint32_t scope, bool profiled);
void remove_session(OpenSession* slot);

inline constexpr std::size_t kMostSessions = 256;

// The runtime's own profiles of each session's first runs: enables them and ends each at the right moment.
//
// The runtime keeps a profile in memory and writes it when it is ended; until then its file is empty. A
// profile that is never ended is lost. If a process is killed before a session's third run, its recording has
// no nodes of that session.
inline constexpr int kMostRuntimes = 4;  // different copies of the library in one process
inline constexpr std::size_t kTableEnd = ort::kCreateSessionFromArrayWithPrepacked + 1;

// A runtime's functions before they were wrapped.
struct Runtime {
  std::atomic<const void*> table{nullptr};
  void* original[kTableEnd] = {};
  void* run_async = nullptr;  // beyond `original`; null if the library has none
};
extern Runtime runtimes[kMostRuntimes];

template <class Function>
Function original(const Runtime& runtime, ort::Position position) {
  return reinterpret_cast<Function>(position == ort::kRunAsync ? runtime.run_async
                                                               : runtime.original[position]);
}

// Exists while the calling thread is in a function of the runtime. Such a thread must not wait for runs to
// end, and must not end a profile if the process ends now.
class InRuntime {
 public:
  InRuntime();
  ~InRuntime();
  InRuntime(const InRuntime&) = delete;
  InRuntime& operator=(const InRuntime&) = delete;
};

// Returns the program's options with profiling enabled; the caller releases them. Null if that is impossible
// (then the recording has runs but no nodes).
ort::SessionOptions* options_with_profile(const Runtime& runtime, const ort::SessionOptions* options);

// A session was loaded into the slot that was reserved for it.
void begin_profile(OpenSession& slot, const void* session, int runtime, std::uint32_t scope, bool profiled);

// Marks the beginning and the end of a session's run. They may be in different threads. begin_run() sets
// `start_ns` for end_run(). If it returns false, end_run() must not be called. The profile ends after the
// first runs, and new runs may have to wait for that (profile_gate.h).
bool begin_run(OpenSession& slot, std::uint64_t& start_ns);
void end_run(OpenSession& slot, std::uint64_t start_ns);

// The same for a run that ends in the function that began it.
class ProfiledRun {
 public:
  explicit ProfiledRun(OpenSession& slot);
  ~ProfiledRun();
  ProfiledRun(const ProfiledRun&) = delete;
  ProfiledRun& operator=(const ProfiledRun&) = delete;

 private:
  OpenSession& slot_;
  const InRuntime in_runtime_;
  std::uint64_t start_ns_ = 0;
  bool is_profiled_;
};

void end_profile_for_release(OpenSession& slot);
// For std::atexit.
void end_profiles_at_exit();

}  // namespace headroom::preload
