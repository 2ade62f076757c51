// The ONNX Runtime sessions that the traced program has open: their names, how often they ran, and whether
// the runtime still writes its profile of them. Fixed memory, no lock on the path of a run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/profile_gate.h"

namespace headroom::tracer {

struct OpenSession {
  std::atomic<const void*> session{nullptr};  // null: the slot is free
  char name[128] = {};
  std::uint32_t scope = 0;
  int runtime = 0;            // which copy of the library's it is, where a program has several
  std::uint32_t profile = 0;  // its number in the recording; 0: the runtime writes none
  ProfileGate gate;
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
