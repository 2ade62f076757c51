// The runtime's own profiles of the sessions' first runs: turning them on, and ending each at the right
// moment.
//
// The runtime keeps a profile in memory and writes it out when it is ended; its file is empty until then. So
// a profile that nobody ends is lost: of a process that is killed before a session's third run there are no
// nodes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/onnxruntime_sessions.h"
#include "tracer/onnxruntime_table.h"

namespace headroom::tracer {

inline constexpr int kMostRuntimes = 4;  // different copies of the library in one process
inline constexpr std::size_t kTableEnd = ort::kCreateSessionFromArrayWithPrepacked + 1;

// A runtime's functions as they were before they were wrapped.
struct Runtime {
  std::atomic<const void*> table{nullptr};
  void* original[kTableEnd] = {};
  ort::RunAsync run_async = nullptr;  // null where the library has none
};
extern Runtime runtimes[kMostRuntimes];

template <class Function>
Function original(const Runtime& runtime, ort::Position position) {
  return reinterpret_cast<Function>(runtime.original[position]);
}

// While the calling thread is in a function of the runtime's: it must not wait for runs to end, nor end a
// profile if the process ends now.
class InRuntime {
 public:
  InRuntime();
  ~InRuntime();
  InRuntime(const InRuntime&) = delete;
  InRuntime& operator=(const InRuntime&) = delete;
};

// The program's options with profiling on, to be released; null where that cannot be had (then there are no
// nodes, only runs).
ort::SessionOptions* options_with_profile(const Runtime& runtime, const ort::SessionOptions* options);

// A session was loaded, into the slot that was reserved for it.
void begin_profile(OpenSession& slot, const void* session, int runtime, std::uint32_t scope, bool profiled);

// A run of a session, which may end in another thread than it began in. `start_ns` is for its end; false: its
// end is not told. The profile of the first runs is ended when they are over, which
// new runs may have to wait for (profile_gate.h).
bool begin_run(OpenSession& slot, std::uint64_t& start_ns);
void end_run(OpenSession& slot, std::uint64_t start_ns);

// The same for one that ends where it began.
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

}  // namespace headroom::tracer
