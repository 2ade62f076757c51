// The ONNX Runtime sessions that the traced program has open: their names, how often they ran, and whether
// the runtime still writes its profile of them. Fixed memory, no lock on the path of a run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headroom::tracer {

// The runtime's profile is ended after so many runs: the first shows the arena grow, the next two the steady
// state, and from then on a run costs nothing more than two scope records. Not more, because the runtime
// keeps the profile in the traced program's own heap, about 5 KiB a node and run, until it is ended.
inline constexpr std::uint32_t kProfiledRuns = 3;

struct OpenSession {
  std::atomic<const void*> session{nullptr};  // null: the slot is free
  char name[128] = {};
  std::uint32_t scope = 0;
  int runtime = 0;                    // which copy of the library's it is, where a program has several
  std::atomic<bool> profiled{false};  // the runtime writes a profile, which somebody has to end
  std::atomic<std::uint32_t> runs{0};
  std::atomic<std::int32_t> running{0};
  std::atomic<bool> ending{false};  // a thread ends the profile now; runs wait for it
};

// The slot of a session that is known, or null.
OpenSession* find_session(const void* session);
// A slot for one that is about to be loaded, or null when kMostSessions are open. Its name is no other open
// session's: "inference", "inference 2". Then either it opens, or the slot is removed.
OpenSession* reserve_session(const char* name);
void open_session(OpenSession* slot, const void* session, int runtime, std::uint32_t scope, bool profiled);
void remove_session(OpenSession* slot);
// The slots, for what must be done to all.
OpenSession* all_sessions(std::size_t& count);

inline constexpr std::size_t kMostSessions = 256;

}  // namespace headroom::tracer
