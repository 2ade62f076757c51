// The runtime's own profiles of each session's first runs: enables them and ends each at the right moment.
//
// The runtime keeps a profile in memory and writes it when it is ended; until then its file is empty. A
// profile that is never ended is lost. If a process is killed before a session's third run, its recording has
// no nodes of that session.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/onnxruntime_sessions.h"
#include "preload/onnxruntime_table.h"

namespace headroom::preload {

inline constexpr int kMostRuntimes = 4;  // different copies of the library in one process
inline constexpr std::size_t kTableEnd = ort::kCreateSessionFromArrayWithPrepacked + 1;

// A runtime's functions before they were wrapped.
struct Runtime {
  std::atomic<const void*> table{nullptr};
  void* original[kTableEnd] = {};
  ort::RunAsync run_async = nullptr;  // null if the library has none
};
extern Runtime runtimes[kMostRuntimes];

template <class Function>
Function original(const Runtime& runtime, ort::Position position) {
  return reinterpret_cast<Function>(runtime.original[position]);
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
